"""Zero outputs: the last matrix of each branch starts at zero, half of Fixup's rule 1: arXiv:1901.09321.

The model starts as its embedding. arXiv:1706.02677, section 5.1, does the same by the gain of a branch's last norm.
The other weights come from N(0, std²).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lab.component import check_number
from lab.model.init import InitConfig, writes_to_stream
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(InitConfig):
    """Normal draws, zeros for matrices called ``out``."""

    zero_branches: ClassVar[bool] = True

    std: float
    """Standard deviation of all other weights."""

    def __post_init__(self) -> None:
        check_number("std", self.std, above=0)

    def draw(self, name: str, shape: torch.Size, dims: Dims, generator: torch.Generator) -> Tensor:
        """Zero for the last matrix of a branch, else a normal draw."""
        if writes_to_stream(name):
            return torch.zeros(shape)
        return torch.randn(shape, generator=generator) * self.std
