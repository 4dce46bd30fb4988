"""The ``schedule`` group: the learning rate as a pure function of the step."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from lab.component import Component, check_number


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig(Component, ABC):
    """Contract: a factor of the peak learning rate at each step."""

    warmup_share: float
    """Share of the run's steps over which the rate rises linearly from near zero; 0: no warm-up."""

    def __post_init__(self) -> None:
        check_number("warmup_share", self.warmup_share, least=0, below=1)

    def factor(self, step: int, steps: int) -> float:
        """The factor in [0, 1] of the update that follows ``step`` finished updates of ``steps``."""
        warmup = round(self.warmup_share * steps)
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return self.after_warmup((step - warmup) / max(1, steps - warmup))

    @abstractmethod
    def after_warmup(self, progress: float) -> float:
        """The factor once a share ``progress`` in [0, 1) of the remaining steps is done."""
