"""KERPLE in its logarithmic form, -a ln(1 + b (i - j)) for query i and key j: arXiv:2205.09921, equation 5.

a and b are positive and learned, one of each for every head of every layer; the bias is added after scaling. They
are kept as logarithms here, where the authors' code clamps them at a small number, and start evenly spread over the
ranges from which that code draws them at random, a in (0, 2) and b in (0, 1).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab.model.layer_spec import LayerSpec
from lab.model.position import LayerPosition, Position, PositionConfig
from lab.model.relative import as_tensor
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(PositionConfig):
    """A penalty that grows with the logarithm of the distance."""

    def build(self, dims: Dims) -> Position:
        """Logarithmic biases."""
        return LogBiases(dims.n_heads)


class LogBiases(Position):
    """Makes the penalty of each layer."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads

    def layer(self, spec: LayerSpec, head_dim: int) -> LayerPosition:
        """A penalty with numbers of its own."""
        return LayerLogBias(self.n_heads)


class LayerLogBias(LayerPosition):
    """Subtracts a multiple of the logarithm of the distance, in fp32 at least."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        spread_N = (torch.arange(n_heads) + 0.5) / n_heads
        self.log_a = nn.Parameter((2 * spread_N).log())
        self.log_b = nn.Parameter(spread_N.log())

    def score_bias(self, q_BTNH: Tensor, pos_T: range, pos_S: range, scale: float) -> Tensor:
        """Minus a ln(1 + b distance), (N, T, S); keys after the query, which the mask hides, count as none away."""
        back_TS = (as_tensor(pos_T, q_BTNH)[:, None] - as_tensor(pos_S, q_BTNH)).clamp(min=0)
        a_N11, b_N11 = (log[:, None, None].exp() for log in (self.log_a, self.log_b))
        return -a_N11 * torch.log1p(b_N11 * back_TS)
