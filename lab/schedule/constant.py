"""A constant rate after the warm-up."""

from dataclasses import dataclass

from lab.schedule import ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class Config(ScheduleConfig):
    """No decay."""

    def after_warmup(self, progress: float) -> float:
        """One."""
        return 1.0
