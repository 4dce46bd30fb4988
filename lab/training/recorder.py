"""Metrics on their way from the device to the run's files, with as few waits for the device as possible."""

import math
import time
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from lab.track import Tracker
from lab.training.layer_stats import LayerStats


class Lines(Protocol):
    """Where lines go; ``lab.runs.metrics.JsonLines``, or nowhere."""

    n_lines: int

    def append(self, line: Mapping[str, Any]) -> None:
        """Add one line."""

    def sync(self) -> None:
        """Make all lines survive a power cut."""

    def close(self) -> None:
        """There are no more."""


class Nowhere:
    """What a rank writes to that writes nothing."""

    n_lines = 0

    def append(self, line: Mapping[str, Any]) -> None:
        """Nothing."""

    def sync(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Recorder:
    """Notes each step's tensors; reads and writes them some steps at a time.

    On a CPU every step is written at once. On a GPU reading a number waits for the device; several steps are read
    together. What the files hold in the end is the same.
    """

    def __init__(
        self,
        metrics: Lines,
        timing: Lines,
        tracker: Tracker,
        layers: Lines | None = None,
        *,
        steps_at_once: int,
        tokens_per_step: int,
    ) -> None:
        self.metrics, self.timing, self.tracker, self.layers = metrics, timing, tracker, layers or Nowhere()
        self.steps_at_once, self.tokens_per_step = steps_at_once, tokens_per_step
        self.stacked = 1
        """Runs whose updates are made together; the clock is then that of all of them."""
        self._noted: list[tuple[int, Tensor, Tensor, float]] = []
        self._lines: list[dict[str, float | None]] = []
        self._wall_s = math.nan
        self._since = time.perf_counter()

    def note(self, step: int, loss: Tensor, grad_norm: Tensor, lr: float) -> None:
        """Keep one step's numbers; nothing is read from the device."""
        self._noted.append((step, loss, grad_norm, lr))

    def full(self) -> bool:
        """Whether it is time to settle."""
        return len(self._noted) >= self.steps_at_once

    def settle(self) -> str | None:
        """Read what was noted from the device and stop the clock; says which number is not finite, if one is.

        Steps after such a one are dropped, so that the files do not depend on how many are read together.
        """
        numbers = torch.stack([torch.stack((loss, norm)) for _, loss, norm, _ in self._noted]).tolist()
        self._wall_s = (time.perf_counter() - self._since) / len(self._noted)
        noted, self._noted = self._noted, []
        for (step, _, _, lr), (loss, grad_norm) in zip(noted, numbers, strict=True):
            self._lines.append({"step": step, "loss": loss, "grad_norm": grad_norm, "lr": lr})
            for name, value in (("loss", loss), ("grad_norm", grad_norm)):
                if not math.isfinite(value):
                    return f"{name} is not finite at step {step}"
        return None

    def write_layers(self, stats: LayerStats | None) -> None:
        """Write what was seen of the layers in the steps that were settled; before ``write``."""
        for line in [] if stats is None else stats.until(int(self._lines[-1]["step"] or 0)):
            self.layers.append(line)

    def write(self, val_loss: float | None) -> str:
        """Write what was settled, the validation loss with the last step; returns how it goes in a few words."""
        if val_loss is not None:
            self._lines[-1]["val_loss"] = val_loss
        for line in self._lines:
            self.metrics.append(line)
            stacked = {"stacked": self.stacked} if self.stacked > 1 else {}
            self.timing.append({"step": line["step"], "wall_s": self._wall_s, **stacked})
            self.tracker.log(self.metrics.n_lines, line)
        last, self._lines = self._lines[-1], []
        return f"loss {last['loss']:.3f}  {self.tokens_per_step / self._wall_s:,.0f} tokens/s"

    def sync(self) -> None:
        """Make the metrics survive a power cut; a checkpoint must not be ahead of them."""
        self.metrics.sync()
        self.timing.sync()
        self.layers.sync()

    def restart_clock(self) -> None:
        """Leave out of the timing what was done since the last step: validating, saving."""
        self._since = time.perf_counter()

    def close(self) -> None:
        """Close the files."""
        try:
            self.metrics.close()
        finally:
            self.timing.close()
            self.layers.close()
