"""Transformer-XL's relative positions, (q_i + u) · k_j + (q_i + v) · W_r r_{i-j}: arXiv:1901.02860, section 3.3.

r are sinusoids of the distance, as wide as the model; W_r maps them to a row for each head. u and v start at
zero, as biases do here; the authors and XLNet draw them. The paper shares u and v among the layers; here each layer
has its own, as in XLNet. Both products are scaled. Gopher and Chinchilla use these positions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab.model.layer_spec import LayerSpec
from lab.model.layers import Linear
from lab.model.position import LayerPosition, Position, PositionConfig
from lab.model.relative import by_key, distances
from lab.model.sinusoids import Sinusoids
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(PositionConfig):
    """Content and distance, each with a bias of its own."""

    def build(self, dims: Dims) -> Position:
        """The sinusoids, and the maker of the maps."""
        return RelativeSinusoids(dims)


class RelativeSinusoids(Position):
    """Holds the sinusoids that all layers use."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.dims = dims
        self.sinusoids = Sinusoids(dims.max_seq_len, dims.dim, layout="half")

    def layer(self, spec: LayerSpec, head_dim: int) -> LayerPosition:
        """A map and two biases as wide as a head."""
        return LayerRelativeSinusoids(self.sinusoids, self.dims, head_dim)


class LayerRelativeSinusoids(LayerPosition):
    """Adds u to queries, and to scores the products of q + v with a mapped sinusoid per distance."""

    def __init__(self, sinusoids: Sinusoids, dims: Dims, head_dim: int) -> None:
        super().__init__()
        self.shared = (sinusoids,)  # in a tuple, so that they stay the model's
        self.n_heads, self.head_dim, self.dim = dims.n_heads, head_dim, dims.dim
        self.r = Linear(dims.dim, self.n_heads * head_dim, bias=False)
        self.u = nn.Parameter(torch.zeros(self.n_heads * head_dim))
        self.v = nn.Parameter(torch.zeros(self.n_heads * head_dim))

    def rotate(self, q_BTNH: Tensor, k_BTKH: Tensor, pos_T: range) -> tuple[Tensor, Tensor]:
        """Add u to queries; nothing is turned."""
        return q_BTNH + self._by_head(self.u, q_BTNH), k_BTKH

    def score_bias(self, q_BTNH: Tensor, pos_T: range, pos_S: range, scale: float) -> Tensor:
        """Products of q + v, made of the q + u that is given, with the row of each distance."""
        steps = distances(pos_T, pos_S)
        rows_JD = self.shared[0](steps[-1], steps[0] + 1).flip(0).to(self.r.weight.dtype)
        rows_JNH = self.r(rows_JD).unflatten(-1, (self.n_heads, self.head_dim))
        q_BTNH = (q_BTNH + self._by_head(self.v - self.u, q_BTNH)) * scale
        return by_key(torch.einsum("btnh,jnh->bntj", q_BTNH, rows_JNH), len(pos_S))

    def flops(self, seq_len: int) -> float:
        """2 N H S for the products.

        W_r r is computed once for all sequences of a batch, so it is next to nothing per token, and what a linear
        map counts for (2 D N H) is taken off.
        """
        return 2.0 * self.n_heads * self.head_dim * (seq_len - self.dim)

    def _by_head(self, bias: Tensor, like: Tensor) -> Tensor:
        return bias.view(self.n_heads, self.head_dim).to(like.dtype)
