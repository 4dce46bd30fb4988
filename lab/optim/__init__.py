"""The ``optim`` group: what turns gradients into updates.

Weight decay is the same in all of them, θ ← θ - lr_t λ θ apart from the gradient; which λ a parameter has is
regularization's matter.
"""

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

    def peak_lr(self, *, hidden: bool) -> float:
        """Peak learning rate of a parameter, before the init's factor; ``hidden`` as in ``build``."""
        return self.lr

    @abstractmethod
    def build(self, groups: Iterable[dict[str, Any]]) -> Optimizer:
        """An optimizer over groups.

        Each holds ``params``; ``weight_decay``, its λ; ``lr_scale``, its peak learning rate over ``lr``; and
        ``hidden``, whether it holds matrices of the blocks, not tables, head, gains or biases. The optimizer keeps
        them in its own groups; the loop sets each group's ``lr`` before each step.
        """
