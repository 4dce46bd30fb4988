"""Xavier or Glorot: matrices uniform with variance 2 / (in + out), as in the theory of arXiv:2002.04745.

The code of the transformer of 2017 draws so too, ±sqrt(6 / (in + out)), and the token table from N(0, 1/D); the
paper itself does not say. The theory cited has normal draws of the same variance.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.model.init import InitConfig, is_table
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(InitConfig):
    """Draws by the mean of fan-in and fan-out; tables, which have no fan-in, by width."""

    def draw(self, name: str, shape: torch.Size, dims: Dims, generator: torch.Generator) -> Tensor:
        """A uniform draw, or a normal one for a table."""
        if is_table(name):
            return torch.randn(shape, generator=generator) / math.sqrt(dims.dim)
        bound = math.sqrt(6 / (shape[-1] + shape[-2]))
        return (2 * torch.rand(shape, generator=generator) - 1) * bound
