"""Gradient descent with momentum, decay apart from the gradient (SGDW): arXiv:1711.05101, algorithm 1.

The momentum is PyTorch's, b ← μ b + g without a factor of the gradient, so at μ = 0.9 a rate acts like one ten
times as large; the rate multiplies b when it is applied, not when it is gathered.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from lab.component import check, check_number
from lab.optim import OptimConfig
from lab.optim._decoupled import MomentOptimizer


@dataclass(frozen=True, kw_only=True)
class Config(OptimConfig):
    """The gradient itself, or a sum of past ones."""

    momentum: float
    """μ: what is kept of the sum of past gradients at each step, in [0, 1); 0: none."""
    nesterov: bool
    """Whether the update looks one step ahead: g + μ b in place of b."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("momentum", self.momentum, least=0, below=1)
        check(not self.nesterov or self.momentum > 0, "nesterov", "true", "needs optim.momentum > 0")

    def build(self, groups: Iterable[dict[str, Any]]) -> Optimizer:
        """The optimizer."""
        return SGD(groups, self)


class SGD(MomentOptimizer):
    """Moves against the gradient."""

    def __init__(self, groups: Iterable[dict[str, Any]], config: Config) -> None:
        super().__init__(groups, lr=config.lr)
        self.momentum, self.nesterov = config.momentum, config.nesterov

    def direction(self, gradients: list[Tensor], moments: list[Tensor]) -> list[Tensor]:
        """The sum b ← μ b + g, or g + μ b."""
        torch._foreach_mul_(moments, self.momentum)
        torch._foreach_add_(moments, gradients)
        return list(torch._foreach_add(gradients, moments, alpha=self.momentum)) if self.nesterov else moments
