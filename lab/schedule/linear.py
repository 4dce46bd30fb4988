"""A straight line from the peak to a share of it."""

from dataclasses import dataclass

from lab.component import check_number
from lab.schedule import ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class Config(ScheduleConfig):
    """Linear decay."""

    final_share: float
    """Rate at the end as a share of the peak, in [0, 1]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("final_share", self.final_share, least=0, most=1)

    def after_warmup(self, progress: float) -> float:
        """From 1 down to ``final_share``."""
        return 1 - (1 - self.final_share) * progress
