"""Half a cosine from the peak to a share of it: arXiv:1608.03983, equation 5, without restarts."""

import math
from dataclasses import dataclass

from lab.component import check_number
from lab.schedule import ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class Config(ScheduleConfig):
    """Cosine decay."""

    final_share: float
    """Rate at the end as a share of the peak, in [0, 1]; 0.1 in GPT-3 and OLMo 2."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("final_share", self.final_share, least=0, most=1)

    def after_warmup(self, progress: float) -> float:
        """From 1 down to ``final_share``."""
        return self.final_share + (1 - self.final_share) * (1 + math.cos(math.pi * progress)) / 2
