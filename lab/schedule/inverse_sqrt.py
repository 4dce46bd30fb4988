"""The peak for a while, then the inverse square root of the step: arXiv:1910.10683, section 3.1.2.

T5's rate is 1/sqrt(max(t, k)) at step t, with k 10,000 of its 524,288 steps. As a factor of the peak that is 1 up
to step k and sqrt(k / t) after it, which is ``warmup_share=0`` with a ``hold_share`` of k over all steps. With a
warm-up before it, steps are still counted from the run's first, and k is where the hold ends; ``hold_share=0`` then
is the transformer of 2017, arXiv:1706.03762, equation 3, whose k is its warm-up.
"""

import math
from dataclasses import dataclass

from lab.component import check, check_number
from lab.schedule import ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class Config(ScheduleConfig):
    """A decay that does not reach zero."""

    hold_share: float
    """Share of the steps after the warm-up that stay at the peak, in [0, 1]; above 0 where there is no warm-up."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("hold_share", self.hold_share, least=0, most=1)
        starts = self.hold_share > 0 or self.warmup_share > 0
        check(starts, "hold_share", self.hold_share, "must be > 0 when schedule.warmup_share is 0")

    def after_warmup(self, progress: float) -> float:
        """1, then sqrt(k / t), both in units of the steps after the warm-up."""
        warmup = self.warmup_share / (1 - self.warmup_share)
        return math.sqrt((warmup + self.hold_share) / (warmup + max(progress, self.hold_share)))
