"""Adafactor: a second moment of rows and columns, no first one: arXiv:1804.04235, algorithms 4 and 5, PyTorch's.

A matrix moves by lr_t × max(eps2, RMS of the parameter), so ``lr`` is a relative rate. Where it differs from the
paper: the rate is ``lr`` times the schedule in place of min(0.01, 1/sqrt(t)), but PyTorch keeps 1/sqrt(t) as its
upper bound, so that ``lr`` above it has no effect on the update (0.01: from step 10,000 on; decay is not bounded);
and ``eps1`` bounds the root of the second moment from below, where the paper adds its 1e-30 to squared gradients.
Row and column sums are means. On a GPU each parameter's two norms are waited for.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import Optimizer

from lab.component import check_number
from lab.optim import OptimConfig


@dataclass(frozen=True, kw_only=True)
class Config(OptimConfig):
    """D + F numbers of state for a D × F matrix."""

    beta2_decay: float
    """τ < 0 of the second moment's decay rate 1 - t^τ; -0.8 in the paper."""
    eps1: float
    """Least root of the second moment; its square must be representable, so not below 1e-18."""
    eps2: float
    """Least RMS of a parameter by which its rate is multiplied; lets what starts at zero move."""
    clip_threshold: float
    """d: largest RMS of an update at a rate of one, at least 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("beta2_decay", self.beta2_decay, below=0)
        check_number("eps1", self.eps1, least=1e-18)
        check_number("eps2", self.eps2, above=0)
        check_number("clip_threshold", self.clip_threshold, least=1)

    def build(self, groups: Iterable[dict[str, Any]]) -> Optimizer:
        """The optimizer."""
        return torch.optim.Adafactor(
            groups,
            lr=self.lr,
            beta2_decay=self.beta2_decay,
            eps=(self.eps1, self.eps2),
            d=self.clip_threshold,
        )
