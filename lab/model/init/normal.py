"""Every weight from one normal distribution, N(0, std²)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lab.component import check_number
from lab.model.init import InitConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(InitConfig):
    """One standard deviation for all."""

    std: float
    """Standard deviation; 0.02 in most open models."""

    def __post_init__(self) -> None:
        check_number("std", self.std, above=0)

    def draw(self, name: str, shape: torch.Size, dims: Dims, generator: torch.Generator) -> Tensor:
        """A normal draw."""
        return torch.randn(shape, generator=generator) * self.std
