"""The training loop: batch, loss, backward, clip, step, record, sometimes validate, sometimes save."""

import math
from collections.abc import Generator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, get_total_norm

from lab.config import Device, RunConfig
from lab.data.batches import Batches
from lab.errors import Stopped
from lab.model.loss import token_loss
from lab.progress import Bar
from lab.streams import stream_seed
from lab.training.checkpoint import save_checkpoint
from lab.training.evaluate import Evaluation, Evaluator
from lab.training.interrupt import Request
from lab.training.parts import part
from lab.training.precision import compute_in
from lab.training.ranks import ALONE, Ranks
from lab.training.recorder import Recorder
from lab.training.state import TrainState

T = TypeVar("T")

Step = tuple[Tensor, Tensor, float]
"""What an update gives: the batch's loss in nats per token, the gradient norm before clipping, the rate."""

Course = Generator["Loop", Step, T]
"""A run, or a part of one, on its way: it gives its loop where an update is to be made, and is sent a step."""


@dataclass(frozen=True)
class Outcome:
    """How a loop ended that nobody stopped."""

    not_finite: str | None
    """Which number was not finite, and when; None in a healthy run."""
    final: Evaluation | None
    """The validation after the last step."""
    signal_number: int | None
    """The signal that asked to stop when there was nothing left to stop."""


@dataclass(frozen=True)
class Loop:
    """What one run trains with; ``run`` is the loop itself."""

    config: RunConfig
    state: TrainState
    batches: Batches
    evaluate: Evaluator
    recorder: Recorder
    checkpoints: Path | None
    """Where they go; None on a rank that writes none."""
    ranks: Ranks = ALONE

    def run(self, bar: Bar, request: Request) -> Course[Outcome]:
        """Train from the state's step to the last; who goes through it makes the updates.

        Raises:
            Stopped: the process was asked to stop; a checkpoint is written first.
        """
        config, state, recorder = self.config, self.state, self.recorder
        final = None
        recorder.restart_clock()
        while state.step < config.train.steps:
            loss, grad_norm, lr = yield self
            recorder.note(state.step, loss, grad_norm, lr)
            validates, saves = validates_after(config, state.step), saves_after(config, state.step)
            stops = self.ranks.asked(request.signal_number) if state.step < config.train.steps else None
            if not (validates or saves or stops or recorder.full()):
                continue
            not_finite = recorder.settle()
            final = self.evaluate(state.model) if validates and not_finite is None else None
            if final is not None and not math.isfinite(final.loss):
                not_finite = f"val_loss is not finite after step {state.step}"
            recorder.write_layers(state.layers)
            bar.update(state.step, recorder.write(final.loss if final else None))
            if not_finite is not None:
                return Outcome(not_finite, None, request.signal_number)
            if saves or stops:
                recorder.sync()
                if self.checkpoints is not None:
                    save_checkpoint(self.checkpoints, state.tensors(), state.step)
            if stops:
                raise Stopped(f"stopped after step {state.step} of {config.train.steps}", stops)
            recorder.restart_clock()
        if final is None:  # killed after the last checkpoint and before the result
            final = self.evaluate(state.model)
        return Outcome(None, final, request.signal_number)


def go_through(course: Course[T]) -> T:
    """Make a run's updates one after another, by itself; what comes of it."""
    try:
        loop = next(course)
        while True:
            try:
                step = train_step(loop.config, loop.state, loop.batches, loop.ranks)
            except BaseException as error:  # the run has to write down how it ended
                loop = course.throw(error)
            else:
                loop = course.send(step)
    except StopIteration as end:
        came: T = end.value
        return came


def early_step(config: RunConfig) -> int:
    """The step after which the early loss is measured: one eighth of the run, as in arXiv:2102.11972."""
    return math.ceil(config.train.steps / 8)


def validates_after(config: RunConfig, step: int) -> bool:
    """Whether a validation follows ``step`` updates."""
    every = config.train.eval_every
    return step in (early_step(config), config.train.steps) or (every is not None and step % every == 0)


def saves_after(config: RunConfig, step: int) -> bool:
    """Whether a checkpoint follows ``step`` updates."""
    every = config.train.checkpoint_every
    return step == config.train.steps or (every is not None and step % every == 0)


def train_step(config: RunConfig, state: TrainState, batches: Batches, ranks: Ranks = ALONE) -> Step:
    """One update."""
    return backward(config, state, batches, ranks), *update(config, state, batches)


def update(config: RunConfig, state: TrainState, batches: Batches) -> tuple[Tensor, float]:
    """Have the optimizer use the gradients. Returns their norm before clipping, and the rate."""
    lr = config.optim.lr * config.schedule.factor(state.step, config.train.steps)
    for group in state.optimizer.param_groups:
        group["lr"] = lr * group["lr_scale"]
    if state.layers is not None:
        state.layers.look(state.model, batches, state.step)
    with part("clip"):
        grad_norm = clip(config, state)
    with part("optimizer"):
        state.optimizer.step()
        state.optimizer.zero_grad(set_to_none=True)
    state.step += 1
    return grad_norm, lr


def backward(config: RunConfig, state: TrainState, batches: Batches, ranks: Ranks = ALONE) -> Tensor:
    """Gradients of the batch that follows ``state.step`` updates; returns its loss in nats per token.

    Each rank computes its rows; denominators are the whole batch's, so that sums over ranks are the batch's.
    """
    own = ranks.rows(config.train.batch_size)
    with part("data"):
        inputs, targets = batches.at(state.step)
        n_tokens = max(1, int((targets >= 0).sum()))
        x_BT, y_BT = (to_device(array[own], config.device) for array in (inputs, targets))
    torch.manual_seed(stream_seed(config.study_seed, config.seed, "noise", state.step, *ranks.noise))
    n_rows = len(x_BT) * ranks.size
    micro = config.train.micro_batch_size or len(x_BT)
    together = ranks.mean if config.train.micro_batch_size is None else None
    nats = torch.zeros((), device=x_BT.device)
    for first in range(0, len(x_BT), micro):
        rows = slice(first, first + micro)
        with compute_in(config.precision, config.device):
            hidden_BTD, extra = state.model(x_BT[rows])
            with part("loss"):
                loss = token_loss(state.model, hidden_BTD, y_BT[rows], denominator=n_tokens, together=together)
        objective = loss.objective + sum(extra.values()) * (micro / n_rows) if extra else loss.objective
        with ranks.summed(state.model) if first + micro == len(x_BT) else nullcontext():
            objective.backward()
        nats += loss.nats
    return ranks.sum(nats) / n_tokens


def clip(config: RunConfig, state: TrainState) -> Tensor:
    """Scale the gradient down to the largest norm allowed; returns its norm before."""
    parameters = [p for p in state.model.parameters() if p.grad is not None]
    if config.optim.grad_clip is None:
        return get_total_norm([p.grad for p in parameters if p.grad is not None])
    return clip_grad_norm_(parameters, config.optim.grad_clip)


def to_device(array: object, device: Device) -> Tensor:
    """A batch's tokens where they are computed with."""
    tensor = torch.as_tensor(array)
    if device is Device.cuda:
        return tensor.pin_memory().to("cuda", non_blocking=True)
    return tensor.to(device.value)
