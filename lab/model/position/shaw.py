"""Relative positions as vectors, e_ij = q_i · (k_j + a_ij) / sqrt(H): arXiv:1803.02155, equations 3 and 4.

a_ij is a row of a table, that of the distance i - j, or of ``clip`` beyond it; the paper's rows for keys after
their query have no use here. Heads share the tables, layers have their own. The paper adds rows of a second table
to the values, and finds in its table 3 that the first alone does as well; the second needs the attention weights,
which a fused kernel does not give, so it is off by default.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from lab.component import check_number
from lab.model.layer_spec import LayerSpec
from lab.model.layers import Embedding
from lab.model.position import LayerPosition, Position, PositionConfig
from lab.model.relative import by_distance, by_key, distances
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(PositionConfig):
    """A vector per distance, added to keys."""

    clip: int
    """Distance in tokens from which on all are alike, k in the paper, >= 1."""
    values: bool
    """Whether a vector per distance is added to the values too."""

    def __post_init__(self) -> None:
        check_number("clip", self.clip, least=1)

    def build(self, dims: Dims) -> Position:
        """The maker of the tables."""
        return DistanceVectors(dims.n_heads, clip=self.clip, values=self.values)


class DistanceVectors(Position):
    """Makes the tables of each layer."""

    def __init__(self, n_heads: int, *, clip: int, values: bool) -> None:
        super().__init__()
        self.n_heads, self.clip, self.values = n_heads, clip, values

    def layer(self, spec: LayerSpec, head_dim: int) -> LayerPosition:
        """Tables of rows as wide as a head."""
        return LayerDistanceVectors(self.n_heads, head_dim, clip=self.clip, values=self.values)


class LayerDistanceVectors(LayerPosition):
    """Tables with a row for each distance from 0 to ``clip``; products with rows are then laid out by key."""

    def __init__(self, n_heads: int, head_dim: int, *, clip: int, values: bool) -> None:
        super().__init__()
        self.n_heads, self.head_dim, self.clip, self.biases_values = n_heads, head_dim, clip, values
        self.keys = Embedding(clip + 1, head_dim)
        self.values = Embedding(clip + 1, head_dim) if values else None

    def score_bias(self, q_BTNH: Tensor, pos_T: range, pos_S: range, scale: float) -> Tensor:
        """Products of queries with the row of each distance, times ``scale``."""
        rows_JH = self.keys.weight.flip(0) * scale  # the farthest first
        products_BNTJ = (q_BTNH @ rows_JH.T).transpose(1, 2)
        n_far, near = self._columns(pos_T, pos_S)
        far_BNTJ = products_BNTJ[..., :1].expand(-1, -1, -1, n_far)
        return by_key(torch.cat((far_BNTJ, products_BNTJ[..., near]), dim=-1), len(pos_S))

    def value_bias(self, weights_BNTS: Tensor, pos_T: range, pos_S: range) -> Tensor | None:
        """Rows of the second table, weighted as the values are."""
        if self.values is None:
            return None
        weights_BNTJ = by_distance(weights_BNTS, len(distances(pos_T, pos_S)))
        rows_JH = self.values.weight.flip(0)
        n_far, near = self._columns(pos_T, pos_S)
        far_BNTH = weights_BNTJ[..., :n_far].sum(-1, keepdim=True) * rows_JH[0]
        return (weights_BNTJ[..., n_far:] @ rows_JH[near] + far_BNTH).transpose(1, 2)

    def _columns(self, pos_T: range, pos_S: range) -> tuple[int, slice]:
        """How many distances are beyond ``clip``, and which rows, the farthest first, the others take."""
        steps = distances(pos_T, pos_S)
        n_far = min(max(steps[0] - self.clip, 0), len(steps))
        return n_far, slice(max(self.clip - steps[0], 0), max(self.clip - steps[-1] + 1, 0))

    def flops(self, seq_len: int) -> float:
        """2 N H a row, for keys and for values."""
        rows = self.clip + 1 + (0 if self.values is None else min(self.clip + 1, seq_len))
        return 2.0 * self.n_heads * self.head_dim * rows
