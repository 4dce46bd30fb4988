"""Run the steps of a planned run, whole ones and their products in turn, then under a profiler."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from lab.config import Device, RunConfig
from lab.progress import Bar
from lab.runs.metrics import JsonLines
from lab.track.none import Silent
from lab.training.loop import train_step
from lab.training.parts import heard, part
from lab.training.plan import Plan
from lab.training.profile.classes import LOSS, OPTIMIZER, Scopes, modules_in
from lab.training.profile.counted import Watch
from lab.training.profile.floor import Floor
from lab.training.profile.timed import Seen, watch
from lab.training.recorder import Recorder
from lab.training.state import TrainState, new_state

WARM = 3
"""Steps before the first that counts."""


@dataclass(frozen=True)
class Steps:
    """Steps as the loop takes them, metrics written."""

    config: RunConfig
    state: TrainState
    planned: Plan
    recorder: Recorder

    def __call__(self) -> None:
        """Take one."""
        loss, grad_norm, lr = train_step(self.config, self.state, self.planned.batches)
        with part("logging"):
            self.recorder.note(self.state.step, loss, grad_norm, lr)
            self.recorder.settle()
            self.recorder.write(None)


@dataclass(frozen=True)
class Compiled:
    """Steps of the compiled model, which has no operators to tell apart."""

    first_s: float
    """The first step, with the compiling."""
    whole_ms: list[float]
    """Steps after that."""


@dataclass(frozen=True)
class Measured:
    """What was found of a step."""

    whole_ms: list[float]
    """Steps without a profiler."""
    floor_ms: list[float]
    """Their products, each time after a step."""
    floor: Floor
    counted: Watch
    held: dict[str, int]
    """Bytes of weights, gradients, the optimizer's state; what is saved for backward; the most at once."""
    by_class: dict[str, int]
    """Bytes that a class holds."""
    seen: Seen
    attention_path: Sequence[str]
    compiled: Compiled | None
    """None where the run is not compiled."""


def measure(planned: Plan, n_steps: int, bar: Bar) -> Measured:
    """Profile a run's step; everything it writes goes to a folder of its own.

    Args:
        planned: the run; one that is compiled is measured as it is otherwise, and compiled steps are timed after.
        n_steps: whole steps to time, and as many to profile.
        bar: told of 2 ``n_steps``.
    """
    needed = WARM + 1 + 2 * n_steps
    config = planned.config
    config = replace(config, train=replace(config.train, steps=max(config.train.steps, needed)))
    with tempfile.TemporaryDirectory(prefix="lab-profile-") as folder:
        metrics, timing = (
            JsonLines(Path(folder) / f"{name}.jsonl", keep_steps=0) for name in ("metrics", "timing")
        )
        per_step = config.train.batch_size * config.model.max_seq_len
        recorder = Recorder(metrics, timing, Silent(), steps_at_once=1, tokens_per_step=per_step)
        try:
            found = _measured(_begin(replace(config, compile=False), planned, recorder), n_steps, bar)
            if not config.compile:
                return found
            return replace(found, compiled=_compiled(_begin(config, planned, recorder), n_steps))
        finally:
            recorder.close()


def _begin(config: RunConfig, planned: Plan, recorder: Recorder) -> Steps:
    """A run before its first step."""
    state = new_state(config, planned.architecture)
    if planned.start is not None:
        planned.start.transfer.apply(state.model)
    return Steps(config, state, planned, recorder)


def _compiled(step: Steps, n_steps: int) -> Compiled:
    cuda = step.config.device is Device.cuda
    first = _ms(step, cuda=cuda) / 1000
    for _ in range(WARM - 1):
        step()
    return Compiled(first, [_ms(step, cuda=cuda) for _ in range(n_steps)])


def _measured(step: Steps, n_steps: int, bar: Bar) -> Measured:
    config, model = step.config, step.state.model
    cuda = config.device is Device.cuda
    norms = (type(config.norm.build(8, site="final")),)
    for _ in range(WARM):
        step()
    counter, held, by_class = _counted(step, norms)
    floor = Floor(counter.products, config.device.value)
    floor()
    whole: list[float] = []
    alone: list[float] = []
    for done in range(n_steps):
        whole.append(_ms(step, cuda=cuda))
        alone.append(_ms(floor, cuda=cuda))
        bar.update(done + 1)
    scopes = Scopes()
    with modules_in(model, norms, scopes), heard(scopes.open):
        seen = watch(step, n_steps, scopes, cuda=cuda)
    bar.update(2 * n_steps)
    paths = sorted({attn.path for attn in model.attention()})
    return Measured(whole, alone, floor, counter, held, by_class, seen, paths, None)


def _counted(step: Steps, norms: tuple[type, ...]) -> tuple[Watch, dict[str, int], dict[str, int]]:
    """One step operator by operator: the counter, bytes by what they are for, and by class."""
    model, optimizer = step.state.model, step.state.optimizer
    cuda = step.config.device is Device.cuda
    state = [t for held in optimizer.state.values() for t in held.values() if isinstance(t, torch.Tensor)]
    weights = [*model.parameters(), *model.buffers()]
    scopes = Scopes()
    counter = Watch([*weights, *state], weights, scopes)
    forgetting = model.register_forward_pre_hook(lambda *_: counter.saved.clear())  # of the last micro-batch
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    try:
        with modules_in(model, norms, scopes), heard(counter.part), counter.saving(), counter:
            step()
    finally:
        forgetting.remove()
    saved = counter.saved_bytes()
    saved.pop(LOSS, None)  # among what the loss added
    held = {
        "weights": _bytes(weights),
        "gradients": _bytes([p for p in model.parameters() if p.requires_grad]),
        "optimizer": _bytes(state),
        "saved": saved.total(),
        "loss": counter.loss_bytes,
        "most": torch.cuda.max_memory_allocated() if cuda else counter.most,
    }
    return counter, held, {**saved, LOSS: counter.loss_bytes, OPTIMIZER: held["optimizer"]}


def _bytes(tensors: list[Any]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _ms(work: Callable[[], None], *, cuda: bool) -> float:
    if cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if cuda:
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - start)
