"""The ``optim`` group: what turns gradients into updates."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch.optim import Optimizer

from lab.component import Component, check_number


@dataclass(frozen=True, kw_only=True)
class OptimConfig(Component, ABC):
    """Contract: build an optimizer over parameter groups."""

    lr: float
    """Peak learning rate; the schedule multiplies it by a factor in [0, 1]."""
    grad_clip: float | None
    """Largest L2 norm of the gradient over all parameters; a longer one is scaled down. null: no clipping."""

    def __post_init__(self) -> None:
        check_number("lr", self.lr, above=0)
        if self.grad_clip is not None:
            check_number("grad_clip", self.grad_clip, above=0)

    @abstractmethod
    def build(self, groups: Iterable[dict[str, Any]]) -> Optimizer:
        """An optimizer; each group holds ``params``, ``weight_decay`` and ``lr_scale``."""
