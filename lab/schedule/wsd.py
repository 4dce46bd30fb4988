"""Warm-up, stable, decay: constant at the peak, then a fall to a share of it: arXiv:2404.06395, section 4.

The shape ``one_minus_sqrt`` is arXiv:2405.18392's, 1 - sqrt(u) at a share u of the decay.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from lab.component import check_number
from lab.schedule import ScheduleConfig


class Shape(StrEnum):
    """The way down."""

    linear = "linear"
    one_minus_sqrt = "one_minus_sqrt"


@dataclass(frozen=True, kw_only=True)
class Config(ScheduleConfig):
    """Decay late and quick."""

    decay_share: float
    """Share of the steps after the warm-up over which the rate falls, in (0, 1]."""
    final_share: float
    """Rate at the end as a share of the peak, in [0, 1]."""
    shape: Shape
    """A straight line, or first fast and then slow."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("decay_share", self.decay_share, above=0, most=1)
        check_number("final_share", self.final_share, least=0, most=1)

    def after_warmup(self, progress: float) -> float:
        """1, and at the end down to ``final_share``."""
        done = max(0.0, 1 - (1 - progress) / self.decay_share)
        left = 1 - (math.sqrt(done) if self.shape == Shape.one_minus_sqrt else done)
        return self.final_share + (1 - self.final_share) * left
