"""The ``track`` group: who is told of a run's metrics beside ``metrics.jsonl``, which is always written."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.component import Component, check_number
from lab.errors import one_line

log = logging.getLogger(__name__)


class Tracker(ABC):
    """A listener. What it does never changes a run's result, and its failure never ends a run."""

    @abstractmethod
    def log(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """One step's metrics; steps only grow."""

    @abstractmethod
    def finish(self, result: Mapping[str, Any]) -> None:
        """The run has ended or was stopped, with what ``result.json`` holds; the last call."""


class Guarded(Tracker):
    """A tracker whose first failure is a warning, and who is told nothing from then on."""

    def __init__(self, start: Callable[[], Tracker]) -> None:
        self._tracker: Tracker | None = None
        with self._failure_is_the_last():
            self._tracker = start()

    def log(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Hand on one step's metrics."""
        with self._failure_is_the_last():
            if self._tracker is not None:
                self._tracker.log(step, metrics)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Hand on the result."""
        with self._failure_is_the_last():
            if self._tracker is not None:
                self._tracker.finish(result)

    @contextmanager
    def _failure_is_the_last(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._tracker = None
            log.warning("tracking stopped, training goes on: %s: %s", type(error).__name__, one_line(error))


@dataclass(frozen=True, kw_only=True)
class TrackConfig(Component, ABC):
    """Contract: start a tracker for one run."""

    layers: bool
    """Whether statistics of each layer are written to ``layers.jsonl`` (gradient norm, activation RMS, attention
    logits and entropy, growth exponents); training is the same bit for bit."""
    layers_every: int
    """Every how many steps, from the first; at least 1."""

    def __post_init__(self) -> None:
        check_number("layers_every", self.layers_every, least=1)

    @abstractmethod
    def build(self, run_id: str, config: Mapping[str, Any], folder: Path) -> Tracker:
        """A tracker; files of its own go below the run's folder."""
