"""SmallInit: every weight from N(0, 2 / (5 D)), Xavier's variance of a D × 4D matrix: arXiv:1910.05895."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.model.init import InitConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(InitConfig):
    """One standard deviation for all, by width."""

    def draw(self, name: str, shape: torch.Size, dims: Dims, generator: torch.Generator) -> Tensor:
        """A normal draw."""
        return torch.randn(shape, generator=generator) * math.sqrt(2 / (5 * dims.dim))
