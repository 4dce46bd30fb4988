"""Runs of one graph from their configurations to their folders, their updates made together.

Each goes the course that it goes by itself (``lab.training.run``): its folder, lock, log, metrics, checkpoints and
result are its own, and it ends as it would, done, diverged, failed or stopped, without the others. Where they
cannot be stacked they are trained one after another, and a line says why.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field

import torch

from lab.config import RunConfig
from lab.errors import Stopped
from lab.training.company import Company
from lab.training.interrupt import stop_request
from lab.training.loop import Course, Loop, update
from lab.training.plan import Plan, plan
from lab.training.run import Trained, course, finished, folder_of, train
from lab.training.run_log import turn_of
from lab.training.stack import Stack, refusal
from lab.training.state import new_state

Asked = tuple[RunConfig, RunConfig | None]
"""A run, and what it is to be matched to."""

Came = Trained | Exception
"""What came of a run; an error that ended it."""

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Run:
    """A run on its course."""

    config: RunConfig
    planned: Plan
    came: Came | Stopped | None = None
    course: Course[Trained] | None = field(default=None, repr=False)
    loop: Loop | None = None
    """Where it stands; None before it begins and where there was nothing to train."""

    @property
    def step(self) -> int:
        """Updates done."""
        return 0 if self.loop is None else self.loop.state.step

    def begin(self, company: Company) -> None:
        """Go to the first update."""
        self.course = course(self.config, self.planned, company=company)
        self._go(lambda on: next(on))

    def advance(self, nats: torch.Tensor, stacked: int) -> None:
        """Make the update that the gradients are there for, and go to the next one."""

        def step(on: Course[Trained]) -> Loop:
            assert self.loop is not None
            self.loop.recorder.stacked = stacked
            try:
                done = nats, *update(self.loop.config, self.loop.state, self.loop.batches)
            except Exception as error:
                return on.throw(error)
            return on.send(done)

        self._go(step)

    def fail(self, error: BaseException) -> None:
        """Have it write down what befell all."""
        self._go(lambda on: on.throw(error))

    def _go(self, onward: Callable[[Course[Trained]], Loop]) -> None:
        assert self.course is not None
        try:
            with turn_of(folder_of(self.planned)):
                self.loop = onward(self.course)
        except StopIteration as end:
            self.came = end.value
        except (Stopped, Exception) as error:
            self.came = error


def train_stacked(asked: Sequence[Asked]) -> list[Came]:
    """Train runs of one graph together; what came of each.

    Raises:
        Stopped: the process was asked to stop; those that were being trained are saved and can be resumed.
    """
    found: list[Came | _Run] = []
    for config, target in asked:
        try:
            found.append(_Run(config, plan(config, target)))
        except Exception as error:
            found.append(error)
    runs = [one for one in found if isinstance(one, _Run)]
    size = sum(run.config.fresh or finished(folder_of(run.planned)) is None for run in runs)
    if size < 2:
        return _one_by_one(asked)
    if (why := _refused(runs[0].planned)) is not None:
        log.warning("%d runs cannot be stacked and are trained one after another: %s", len(runs), why)
        return _one_by_one(asked)
    with stop_request() as request:
        _together(runs, Company(size, lambda: nullcontext(request)))
    stops = [run.came for run in runs if isinstance(run.came, Stopped)]
    if stops:
        raise Stopped("stopped; the runs of the stack are saved", stops[0].signal_number, runs=len(stops))
    return [_came(one.came) if isinstance(one, _Run) else one for one in found]


def _came(what: Came | Stopped | None) -> Came:
    assert isinstance(what, Trained | Exception)
    return what


def _refused(planned: Plan) -> str | None:
    """Why runs like this one are not stacked; None where they are."""
    assert planned.config.threads is not None
    torch.set_num_threads(planned.config.threads)
    return refusal(planned.config, new_state(planned.config, planned.architecture), planned.batches)


def _one_by_one(asked: Sequence[Asked]) -> list[Came]:
    came: list[Came] = []
    for config, target in asked:
        try:
            came.append(train(config, target))
        except Exception as error:
            came.append(error)
    return came


def _together(runs: Sequence[_Run], company: Company) -> None:
    """Have every run come to its end, those at step zero in a stack of their own."""
    with _all_end(runs):
        for run in runs:
            run.begin(company)
        begun = [run for run in runs if run.came is None]
        fresh = [run for run in begun if run.step == 0]
        for together in (fresh, [run for run in begun if run not in fresh]):
            _stack(together)


def _stack(runs: list[_Run]) -> None:
    """Make the updates of some runs together until the last of them has ended."""
    if not runs:
        return
    of_loop = {id(run.loop): run for run in runs}
    stack = Stack([run.loop for run in runs if run.loop is not None])
    while runs:
        try:
            losses = stack.backward()
        except Exception as error:
            for run in runs:
                run.fail(error)
            return
        for loop, nats in zip(stack.members, losses, strict=True):
            of_loop[id(loop)].advance(nats, len(stack.members))
        left = [run for run in runs if run.came is None]
        if left and len(left) < len(runs):
            stack.keep([run.loop for run in left if run.loop is not None])
        runs = left


@contextmanager
def _all_end(runs: Sequence[_Run]) -> Iterator[None]:
    """At a second signal, let each run write down that it was ended."""
    try:
        yield
    except BaseException as error:
        for run in runs:
            if run.came is None and run.loop is not None:
                with suppress(BaseException):
                    run.fail(error)
        raise
