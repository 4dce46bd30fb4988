"""Runs side by side on one machine: a fresh process for each, so many at once, all ended with the one that asked.

The processes are forked from a server that has imported PyTorch already; where there is no fork they are spawned.
Each has a pipe to its launcher: it sends its warnings and what came of it, and hears on it that it is to stop. A
closed pipe says the same, so no worker outlives its launcher for long.
"""

import logging
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from lab.errors import LabError, Stopped
from lab.progress import let_go_of_terminal
from lab.study.worker import SIGNALS, Ended, StoppedError, work

METHOD = "forkserver" if sys.platform == "linux" else "spawn"

PRELOAD = ["torch", "torch._dynamo", "lab.training.run", "lab.commands.train", "hydra_plugins.lab.pool"]
"""What the server imports once for all runs; nothing of it touches a GPU or starts a thread."""

ALIKE = ("lab", "datasets", "scipy", "tokenizers")
"""Packages of which the server imports whatever the launcher needed to check the runs."""

ATTEMPTS = 3
"""Fork servers that may die, one after another, under one worker that is started."""

DYING_S = 0.1
"""Seconds after which a server that was killed is seen to be dead."""

LOST = 255
"""The exit status of a process whose fork server has died; perhaps it lives."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """One run."""

    name: str
    call: Callable[[], Any]
    """What the worker does; it and its value can be pickled."""


@dataclass
class Worker:
    """A process with its job."""

    index: int
    process: BaseProcess
    pipe: Connection
    slot: Mapping[str, str]
    ended: Ended | None = None

    def stop(self) -> None:
        """Ask it to save and leave."""
        with suppress(OSError):
            self.pipe.send(None)


@dataclass
class Pool:
    """So many workers at once as there are slots; ``run`` returns when the last has ended."""

    slots: Sequence[Mapping[str, str]]
    """The environment variables in which the workers differ: their GPU."""
    stop_on_error: bool = False
    """Whether nothing new starts after a failure."""
    told: Callable[[Collection[int]], None] = lambda ended: None
    """Hears each time of the jobs that have ended, by their numbers."""
    workers: list[Worker] = field(default_factory=list)
    signal_number: int | None = None

    def run(self, jobs: Iterator[Job]) -> list[Ended]:
        """Do the jobs, and say what came of each in their order; fewer where something stopped the pool.

        Args:
            jobs: made one ahead, while earlier ones run.

        Raises:
            Stopped: the process was asked to stop; the workers were, too, and have ended.
        """
        ended: dict[int, Ended] = {}
        free, coming = list(self.slots), enumerate((job.name, pickle.dumps(job.call)) for job in jobs)
        with self._signals():
            following = next(coming, None)
            while True:
                while following is not None and free and self._goes_on(ended):
                    self._start(*following, free.pop(0))
                    following = next(coming, None)
                if not self.workers:
                    break
                for worker in self._those_that_ended():
                    self.workers.remove(worker)
                    free.append(worker.slot)
                    ended[worker.index] = worker.ended or _died(worker)
                    self.told(ended)
        if self.signal_number is not None:
            saved = sum(end.error.runs for end in ended.values() if isinstance(end.error, StoppedError))
            raise Stopped(_in_words(saved), self.signal_number)
        return [ended[index] for index in sorted(ended)]

    def _goes_on(self, ended: Mapping[int, Ended]) -> bool:
        failed = self.stop_on_error and any(end.error is not None for end in ended.values())
        return self.signal_number is None and not failed

    def _start(self, index: int, job: tuple[str, bytes], slot: Mapping[str, str]) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                process, pipe = _started(job, slot)
                break
            except (EOFError, ConnectionError) as error:
                if attempt == ATTEMPTS:
                    said = f"the fork server was killed {ATTEMPTS} times; the same command goes on"
                    raise LabError(said) from error
                time.sleep(DYING_S)
        self.workers.append(Worker(index, process, pipe, slot))
        if self.signal_number is not None:  # it came while this one was started
            self.workers[-1].stop()

    def _those_that_ended(self) -> list[Worker]:
        """Wait until workers say something, and hear it; those that have ended."""
        ends = [worker.process.sentinel for worker in self.workers if worker.process.exitcode != LOST]
        said = wait([*ends, *(worker.pipe for worker in self.workers)])
        heard = [worker for worker in self.workers if worker.pipe in said]
        silent = [worker for worker in self.workers if worker not in heard and worker.process.sentinel in said]
        ended = [worker for worker in silent if worker.process.exitcode != LOST]  # and a child has its pipe
        return [worker for worker in heard if not _hear(worker)] + ended

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Hand the first signal on to the workers; at the second they are killed."""

        def note(number: int, frame: FrameType | None) -> None:
            if number == signal.SIGHUP:
                let_go_of_terminal()
            if self.signal_number is not None:
                for worker in self.workers:
                    worker.process.kill()
                raise Stopped("stopped at once", number)
            self.signal_number = number
            for worker in self.workers:
                worker.stop()

        former = {n: signal.getsignal(n) for n in SIGNALS if signal.getsignal(n) != signal.SIG_IGN}
        for number in former:
            signal.signal(number, note)
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
            for worker in self.workers:  # something is wrong here: they notice
                worker.pipe.close()


def _hear(worker: Worker) -> bool:
    """Take what a worker says; False where it has ended."""
    try:
        said = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join()
        return False
    if isinstance(said, Ended):
        worker.ended = said
    else:
        log.log(*said)
    return True


def _died(worker: Worker) -> Ended:
    """A worker that said nothing of how its run ended: it was killed."""
    worker.process.join()
    code = worker.process.exitcode or 0
    name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    reason = f"killed by {name}" if code < 0 else f"its process was lost ({name})"
    error = LabError(f"{reason}, perhaps for want of memory" if name == "SIGKILL" else reason)
    log.error("%s (in the run %s)", error, worker.process.name)
    return Ended(error=error)


def _in_words(saved: int) -> str:
    runs = "no run was" if not saved else "1 run was" if saved == 1 else f"{saved} runs were"
    return f"stopped; {runs} being trained, the same command goes on"


def _started(job: tuple[str, bytes], slot: Mapping[str, str]) -> tuple[BaseProcess, Connection]:
    """A process that does a job, and our end of its pipe.

    Raises:
        EOFError, ConnectionError: the fork server died. Had it forked, the worker finds its pipe closed, and ends.
    """
    context: Any = multiprocessing.get_context(METHOD)
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, {**os.environ, **slot}, job[1]), name=job[0])
    with theirs:
        try:
            if METHOD == "forkserver":
                _ensure_server()
            process.start()
        except BaseException:
            ours.close()
            raise
    return process, ours


def _ensure_server() -> None:
    """Start the fork server unless it runs, deaf to the signals that go to a whole group; workers listen again."""
    known = [name for name in list(sys.modules) if name.partition(".")[0] in ALIKE]
    multiprocessing.set_forkserver_preload([*PRELOAD, *known])
    resource_tracker.ensure_running()  # it unblocks signals
    environment = dict(os.environ)
    os.environ |= {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        forkserver.ensure_running()  # it would look for modules in the current folder first, as no launcher does
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.environ.clear()
        os.environ.update(environment)
