"""Sinusoidal absolute positions, added to the token embeddings: arXiv:1706.03762, section 3.5.

PE(t, 2p) = sin(t 10000^(-2p/D)), PE(t, 2p + 1) the cosine. The paper multiplies token embeddings by sqrt(D) first:
``model.embed_scale=sqrt_dim``; with the small embeddings of today the positions outweigh the tokens without it.
Layouts are the same up to a permutation of the model's features; frequencies: see ``lab.model.sinusoids``.
"""

from dataclasses import dataclass
from enum import StrEnum

from torch import Tensor

from lab.model.position import Position, PositionConfig
from lab.model.sinusoids import Sinusoids
from lab.model.sizes import Dims


class Layout(StrEnum):
    """How sines and cosines share the model's width."""

    interleaved = "interleaved"
    half = "half"


@dataclass(frozen=True, kw_only=True)
class Config(PositionConfig):
    """Fixed rows, for positions of any number."""

    layout: Layout
    """``interleaved``: sine and cosine in turn, as in the paper; ``half``: sines first (tensor2tensor, Marian)."""

    def build(self, dims: Dims) -> Position:
        """A table that goes on beyond ``max_seq_len``."""
        return SinusoidalPosition(dims, layout=self.layout)


class SinusoidalPosition(Position):
    """Adds the sines and cosines of position t to the token there."""

    def __init__(self, dims: Dims, *, layout: Layout) -> None:
        super().__init__()
        self.sinusoids = Sinusoids(dims.max_seq_len, dims.dim, layout=layout)

    def embed(self, x_BTD: Tensor, offset: int = 0) -> Tensor:
        """Add the rows from ``offset`` on."""
        rows_TD: Tensor = self.sinusoids(offset, offset + x_BTD.shape[1])
        return x_BTD + rows_TD.to(x_BTD.dtype)
