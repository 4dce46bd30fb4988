"""No tracker: the files of the run folder are all there is."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.track import TrackConfig, Tracker


@dataclass(frozen=True, kw_only=True)
class Config(TrackConfig):
    """Tell nobody."""

    def build(self, run_id: str, config: Mapping[str, Any], folder: Path) -> Tracker:
        """A tracker that does nothing."""
        return Silent()


class Silent(Tracker):
    """Does nothing."""

    def log(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Nothing."""

    def finish(self, result: Mapping[str, Any]) -> None:
        """Nothing."""
