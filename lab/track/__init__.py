"""The ``track`` group: who is told of a run's metrics beside ``metrics.jsonl``, which is always written."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.component import Component


class Tracker(ABC):
    """A listener. What it does never changes a run's result, and its failure never ends a run."""

    @abstractmethod
    def log(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """One step's metrics; steps only grow."""

    @abstractmethod
    def finish(self, result: Mapping[str, Any]) -> None:
        """The run has ended, with what ``result.json`` holds."""


@dataclass(frozen=True, kw_only=True)
class TrackConfig(Component, ABC):
    """Contract: start a tracker for one run."""

    @abstractmethod
    def build(self, run_id: str, config: Mapping[str, Any], folder: Path) -> Tracker:
        """A tracker; files of its own go below the run's folder."""
