"""Learned absolute positions, x_t = E[token] + P[t]: arXiv:1706.03762, section 3.5 (row E of table 3)."""

from dataclasses import dataclass

from torch import Tensor

from lab.model.layers import Embedding
from lab.model.position import Position, PositionConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(PositionConfig):
    """One learned row per position; nothing beyond the table's end."""

    def build(self, dims: Dims) -> Position:
        """A table of ``max_seq_len`` rows."""
        return LearnedPosition(dims.max_seq_len, dims.dim)


class LearnedPosition(Position):
    """Adds row t of a table to the token at position t."""

    def __init__(self, max_seq_len: int, dim: int) -> None:
        super().__init__()
        self.longest = max_seq_len
        self.table = Embedding(max_seq_len, dim)

    def embed(self, x_BTD: Tensor, offset: int = 0) -> Tensor:
        """Add the rows from ``offset`` on."""
        end = offset + x_BTD.shape[1]
        assert end <= self.table.weight.shape[0], f"learned positions end at {self.longest}"
        return x_BTD + self.table.weight[offset:end]
