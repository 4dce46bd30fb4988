"""Lion, the sign of an interpolation of gradient and momentum: arXiv:2302.06675, algorithm 2.

The rate is that of a sign: every entry moves by ``lr``. The paper advises a rate 3 to 10 times smaller than
AdamW's, and λ larger by as much.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from lab.component import check_number
from lab.optim import OptimConfig
from lab.optim._decoupled import MomentOptimizer


@dataclass(frozen=True, kw_only=True)
class Config(OptimConfig):
    """One moment and the sign of the update."""

    beta1: float
    """Weight of the momentum in the update, in [0, 1]."""
    beta2: float
    """Decay rate of the momentum, in [0, 1)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("beta1", self.beta1, least=0, most=1)
        check_number("beta2", self.beta2, least=0, below=1)

    def build(self, groups: Iterable[dict[str, Any]]) -> Optimizer:
        """The optimizer."""
        return Lion(groups, self)


class Lion(MomentOptimizer):
    """Moves every entry by the rate, up or down."""

    def __init__(self, groups: Iterable[dict[str, Any]], config: Config) -> None:
        super().__init__(groups, lr=config.lr)
        self.beta1, self.beta2 = config.beta1, config.beta2

    def direction(self, gradients: list[Tensor], moments: list[Tensor]) -> list[Tensor]:
        """The sign of β1 m + (1 - β1) g; then m ← β2 m + (1 - β2) g."""
        mixed = torch._foreach_lerp(gradients, moments, self.beta1)
        torch._foreach_sign_(mixed)
        torch._foreach_lerp_(moments, gradients, 1 - self.beta2)
        return list(mixed)
