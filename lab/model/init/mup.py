"""μParam for Adam: a rate tuned at one width stays right at others: arXiv:2203.03466, as in arXiv:2309.14322.

The full form: matrices of the blocks have variance 1/fan-in, queries start at zero, the head's standard deviation
is sqrt(base) / D, attention scores are divided by H and not by its root, and the learning rate of the blocks'
matrices and of the head is multiplied by base / D. Tables, gains and biases keep their draws and their rate at
every width. All widths are taken to grow in proportion to D, so that base / D is each matrix's own ratio of
fan-ins. Made for an untied head and for Adam: a tied head is the token table and follows its rule, and other
optimizers have other exponents.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.component import check_number
from lab.model.init import InitConfig, is_table
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(InitConfig):
    """Draws and learning rates that follow the width."""

    base_dim: int
    """Width D at which rates are what ``optim.lr`` says."""
    embedding_std: float
    """Standard deviation of token and position tables, at every width."""

    def __post_init__(self) -> None:
        check_number("base_dim", self.base_dim, least=1)
        check_number("embedding_std", self.embedding_std, above=0)

    def draw(self, name: str, shape: torch.Size, dims: Dims, generator: torch.Generator) -> Tensor:
        """Zero for queries, else a normal draw."""
        if name.endswith((".attn.q.weight", ".attn.q_up.weight")):
            return torch.zeros(shape)
        return torch.randn(shape, generator=generator) * self._std(name, shape)

    def _std(self, name: str, shape: torch.Size) -> float:
        if is_table(name):
            return self.embedding_std
        if name.startswith("head."):
            return math.sqrt(self.base_dim) / shape[-1]
        return 1 / math.sqrt(shape[-1])

    def lr_scale(self, name: str, shape: torch.Size, dims: Dims) -> float:
        """The base width over D for matrices, 1 for tables, gains and biases."""
        return self.base_dim / dims.dim if name.endswith(".weight") and not is_table(name) else 1.0

    def attention_scale(self, head_dim: int) -> float:
        """1/H."""
        return 1 / head_dim
