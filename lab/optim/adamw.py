"""AdamW: arXiv:1711.05101, algorithm 2, PyTorch's fused kernel."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import Optimizer

from lab.component import check_number
from lab.optim import OptimConfig


@dataclass(frozen=True, kw_only=True)
class Config(OptimConfig):
    """Adam with decay apart from the gradient; which parameters decay is regularization's matter."""

    beta1: float
    """Decay rate of the running mean of gradients, in [0, 1)."""
    beta2: float
    """Decay rate of the running mean of squared gradients, in [0, 1)."""
    eps: float
    """Added to the root of the second moment."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("beta1", self.beta1, least=0, below=1)
        check_number("beta2", self.beta2, least=0, below=1)
        check_number("eps", self.eps, above=0)

    def build(self, groups: Iterable[dict[str, Any]]) -> Optimizer:
        """The optimizer."""
        return torch.optim.AdamW(groups, lr=self.lr, betas=(self.beta1, self.beta2), eps=self.eps, fused=True)
