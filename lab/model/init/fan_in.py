"""Fan-in: truncated normal draws of standard deviation 1/sqrt(in), Flax's default: arXiv:2309.14322.

As in Flax the normal distribution is cut at two standard deviations and widened to make up for it, and the rows
of tables, which are looked up and have no fan-in, come from a plain N(0, 1/D).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.model.init import InitConfig, is_table, truncated_normal
from lab.model.sizes import Dims

CUT = 2.0
LEFT = 0.87962566103423978
"""Standard deviation of what a cut at two leaves of N(0, 1)."""


@dataclass(frozen=True, kw_only=True)
class Config(InitConfig):
    """Draws that keep the variance of what passes through."""

    def draw(self, name: str, shape: torch.Size, dims: Dims, generator: torch.Generator) -> Tensor:
        """A truncated normal draw, or a plain one for a table."""
        if is_table(name):
            return torch.randn(shape, generator=generator) / math.sqrt(dims.dim)
        return truncated_normal(shape, 1 / (LEFT * math.sqrt(shape[-1])), generator, cut=CUT)
