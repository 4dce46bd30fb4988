"""Fixup: branches start at zero and their inner matrices small, so that no norm is needed: arXiv:1901.09321.

Section 3's rules: (1) the output head and the last matrix of each residual branch start at zero; (2) the other
matrices of a branch are drawn as usual, here by He's N(0, 2/fan-in), and multiplied by L^(-1 / (2m - 2)), with L
residual branches, two a block, and m matrices in a row in each, which is 2 here: (2 n_layers)^(-1/2); (3) scalar
biases and a multiplier, which are ``block=fixup``. The YAML brings that block and ``norm=none``. A tied head is
the token table and so does not start at zero.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lab.component import check_number
from lab.model.init import InitConfig, is_table, writes_to_stream
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(InitConfig):
    """Draws for a residual stream without norms."""

    zero_branches: ClassVar[bool] = True

    embedding_std: float
    """Standard deviation of token and position tables."""

    def __post_init__(self) -> None:
        check_number("embedding_std", self.embedding_std, above=0)

    def draw(self, name: str, shape: torch.Size, dims: Dims, generator: torch.Generator) -> Tensor:
        """Zero for the last matrix of a branch and for the head, else a normal draw."""
        if writes_to_stream(name) or name.startswith("head."):
            return torch.zeros(shape)
        std = self.embedding_std if is_table(name) else math.sqrt(2 / shape[-1])
        if name.startswith("blocks."):
            std /= math.sqrt(2 * dims.n_layers)
        return torch.randn(shape, generator=generator) * std
