"""ALiBi, a penalty in proportion to the distance, -m (i - j) for query i and key j: arXiv:2108.12409, section 3.

Added after scaling; nothing is learned. The slopes m of N heads are 2^(-8/N), 2^(-16/N), …, 2^-8 if N is a power of
two; otherwise those of the largest power of two P below N, then every second one of 2P, as in the authors' code,
BLOOM and MPT. BLOOM adds m j instead, which differs by a number per query that the softmax does not see.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from lab.model.layer_spec import LayerSpec
from lab.model.position import LayerPosition, Position, PositionConfig
from lab.model.relative import as_tensor
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(PositionConfig):
    """A fixed slope for each head."""

    def build(self, dims: Dims) -> Position:
        """Linear biases."""
        return LinearBiases(dims.n_heads)


def slopes(n_heads: int) -> list[float]:
    """A slope for each of ``n_heads`` heads."""
    power = 1 << n_heads.bit_length() - 1
    own = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return own + between[: n_heads - power]


class LinearBiases(Position):
    """Makes the penalty of each layer; all are alike."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads

    def layer(self, spec: LayerSpec, head_dim: int) -> LayerPosition:
        """The penalty, which is the same in every layer."""
        return LayerLinearBias(slopes(self.n_heads))


class LayerLinearBias(LayerPosition):
    """Subtracts slope times distance, in fp32 at least."""

    def __init__(self, slopes_N: list[float]) -> None:
        super().__init__()
        self.slopes_N: Tensor
        values = torch.tensor(slopes_N, dtype=torch.float32, device="cpu")  # on meta it would load dynamo
        self.register_buffer("slopes_N", values, persistent=False)

    def score_bias(self, q_BTNH: Tensor, pos_T: range, pos_S: range, scale: float) -> Tensor:
        """Minus slope times distance, (N, T, S)."""
        ahead_TS = as_tensor(pos_S, q_BTNH) - as_tensor(pos_T, q_BTNH)[:, None]
        return self.slopes_N[:, None, None] * ahead_TS
