"""GPT-2: N(0, 0.02²), matrices that write to the residual stream divided by sqrt(2 L): GPT-2 report, section 2.3.

The report scales by the number of residual branches, 2 L; the position table's 0.01 is from the released code.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.component import check_number
from lab.model.init import InitConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(InitConfig):
    """Normal draws that keep the residual stream's variance independent of depth."""

    std: float
    """Standard deviation of matrices and of the token table."""
    position_std: float
    """Standard deviation of a learned position table."""

    def __post_init__(self) -> None:
        check_number("std", self.std, above=0)
        check_number("position_std", self.position_std, above=0)

    def draw(self, name: str, shape: torch.Size, dims: Dims, generator: torch.Generator) -> Tensor:
        """A normal draw, narrower for matrices called ``out``."""
        std = self.position_std if name.startswith("position.") else self.std
        if name.endswith(".out.weight"):
            std /= math.sqrt(2 * dims.n_layers)
        return torch.randn(shape, generator=generator) * std
