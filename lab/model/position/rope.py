"""Rotary positions: arXiv:2104.09864, equation 15, in the half-split layout of GPT-NeoX and Hugging Face Llama.

Pair p of a head is (p, p + H/2), turned at position t by the angle t theta^(-2p/H). The paper's interleaved
pairs (2p, 2p + 1) are the same up to a fixed permutation of the columns of the query and key matrices.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from lab.component import check_number
from lab.errors import ConfigError
from lab.model.layer_spec import LayerSpec
from lab.model.position import LayerPosition, Position, PositionConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(PositionConfig):
    """RoPE on the whole head."""

    theta: float
    """Base of the geometric series of frequencies; 10,000 in the paper."""

    def __post_init__(self) -> None:
        check_number("theta", self.theta, above=1)

    def build(self, dims: Dims) -> Position:
        """Rotary positions."""
        return RotaryPosition(dims, theta=self.theta)


class RotaryPosition(Position):
    """Makes the rotation of each layer."""

    def __init__(self, dims: Dims, *, theta: float) -> None:
        super().__init__()
        self.dims, self.theta = dims, theta

    def layer(self, spec: LayerSpec, head_dim: int) -> LayerPosition:
        """A rotation with the layer's own theta where it has one.

        Raises:
            ConfigError: the head width is odd.
        """
        if head_dim % 2:
            raise ConfigError(f"model.head_dim {head_dim} must be even for position=rope")
        theta = spec.theta if spec.theta is not None else self.theta
        return LayerRotation(head_dim, self.dims.max_seq_len, theta=theta)


class LayerRotation(LayerPosition):
    """Turns queries and keys; angles are computed in fp32 whatever the precision of training."""

    def __init__(self, head_dim: int, max_seq_len: int, *, theta: float) -> None:
        super().__init__()
        self.head_dim, self.theta = head_dim, theta
        self.cos_TH: Tensor
        self.sin_TH: Tensor
        cos_TH, sin_TH = self._angles(torch.arange(max_seq_len, device="cpu"))  # on meta it would load dynamo
        self.register_buffer("cos_TH", cos_TH, persistent=False)
        self.register_buffer("sin_TH", sin_TH, persistent=False)

    def _angles(self, pos_T: Tensor) -> tuple[Tensor, Tensor]:
        pairs = torch.arange(0, self.head_dim, 2, dtype=torch.float32, device=pos_T.device)
        angle_TH = pos_T.float()[:, None] * self.theta ** (-pairs / self.head_dim)
        angle_TH = torch.cat((angle_TH, angle_TH), dim=-1)
        sin_TH = angle_TH.sin()
        sin_TH[:, : self.head_dim // 2].neg_()  # the sign of the half-split rotation, folded into the table
        return angle_TH.cos(), sin_TH

    def rotate(self, q_BTNH: Tensor, k_BTKH: Tensor, pos_T: range) -> tuple[Tensor, Tensor]:
        """Turn new queries and keys by their position."""
        if pos_T.stop <= self.cos_TH.shape[0]:
            cos_TH, sin_TH = self.cos_TH[pos_T.start : pos_T.stop], self.sin_TH[pos_T.start : pos_T.stop]
        else:
            cos_TH, sin_TH = self._angles(torch.arange(pos_T.start, pos_T.stop, device=q_BTNH.device))
        cos_T1H, sin_T1H = (t[:, None, :].to(q_BTNH.dtype) for t in (cos_TH, sin_TH))
        return _turn(q_BTNH, cos_T1H, sin_T1H), _turn(k_BTKH, cos_T1H, sin_T1H)


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return torch.addcmul(x * cos, torch.roll(x, x.shape[-1] // 2, dims=-1), sin)
