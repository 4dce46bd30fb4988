"""Rotary positions: arXiv:2104.09864, equation 15, on all of a head or its first part, in either layout of pairs.

Of the r rotated numbers of a head, pair p turns at position t by the angle t theta^(-2p/r). It is (p, p + r/2) in
the ``half`` layout (GPT-NeoX, and Llama in Hugging Face's form) and (2p, 2p + 1) in the ``interleaved`` one (the
paper, GPT-J, Meta's Llama, Cohere, DeepSeek). The two are the same up to a fixed permutation of the columns of the
query and key matrices, so they train alike and their weights are not interchangeable.

The rotated part comes first, as in GPT-J (64 of 256), GPT-NeoX (a quarter) and Phi. ``scaling`` is that of
``lab.model.rope_scaling`` and applies to all layers that rotate, whatever their theta; in Hugging Face's Gemma 3 it
applies only to the layers that attend to everything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import torch
from torch import Tensor

from lab.component import check, check_number
from lab.errors import ConfigError
from lab.model.layer_spec import LayerSpec
from lab.model.position import LayerPosition, Position, PositionConfig
from lab.model.rope_scaling import Rope, Scaling
from lab.model.sizes import Dims


class Layout(StrEnum):
    """Which two numbers make a pair."""

    half = "half"
    interleaved = "interleaved"


@dataclass(frozen=True, kw_only=True)
class Config(PositionConfig):
    """RoPE."""

    theta: float
    """Base of the geometric series of frequencies, > 1; 10,000 in the paper. A layer may have its own."""
    fraction: float
    """Part of a head that is rotated, in (0, 1]: its first numbers, an even count, rounded down."""
    layout: Layout
    """Pairs: ``half`` (p, p + r/2) or ``interleaved`` (2p, 2p + 1)."""
    scaling: Scaling
    """Change of the frequencies for longer sequences: ``none``, ``linear``, ``ntk``, ``llama3`` or ``yarn``."""
    factor: float
    """Longer length over original length, >= 1; used by every scaling."""
    original_max_seq_len: int | None
    """Original length in tokens, used by ``llama3`` and ``yarn``; null: model.max_seq_len."""
    low_freq_factor: float
    """``llama3``: pairs with fewer turns than this in the original length are interpolated; 1 in Llama 3.1."""
    high_freq_factor: float
    """``llama3``: pairs with more turns than this in the original length are kept; 4 in Llama 3.1."""
    beta_fast: float
    """``yarn``: pairs with more turns than this in the original length are kept; 32 in the paper."""
    beta_slow: float
    """``yarn``: pairs with fewer turns than this in the original length are interpolated; 1 in the paper."""

    def __post_init__(self) -> None:
        check_number("theta", self.theta, above=1)
        check_number("fraction", self.fraction, above=0, most=1)
        check_number("factor", self.factor, least=1)
        for key in ("low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow"):
            check_number(key, getattr(self, key), above=0)
        for high, low in (("high_freq_factor", "low_freq_factor"), ("beta_fast", "beta_slow")):
            least = getattr(self, low)
            check(getattr(self, high) > least, high, getattr(self, high), f"must be above position.{low} {least}")
        if self.original_max_seq_len is not None:
            check_number("original_max_seq_len", self.original_max_seq_len, least=1)

    def build(self, dims: Dims) -> Position:
        """Rotary positions."""
        return RotaryPosition(self, dims)

    def width(self, head_dim: int) -> int:
        """Rotated numbers of a head.

        Raises:
            ConfigError: there is none, or they make no pairs.
        """
        width = int(round(self.fraction * head_dim, 6))  # 0.29 x 100 is a little below 29 in floating point
        if width % 2 or not width:
            raise ConfigError(
                f"model.head_dim {head_dim} times position.fraction {self.fraction:g} must be even and at least 2 "
                f"for position=rope, not {width} (with attn=mla it is attn.rope_dim that is {head_dim})"
            )
        return width


class RotaryPosition(Position):
    """Makes the rotation of each layer."""

    def __init__(self, config: Config, dims: Dims) -> None:
        super().__init__()
        self.config, self.dims = config, dims
        self.made: dict[tuple[float | None, int], LayerRotation] = {}

    def layer(self, spec: LayerSpec, head_dim: int) -> LayerPosition:
        """A rotation with the layer's own theta where it has one; layers that turn alike have one between them.

        Raises:
            ConfigError: the rotated part is odd, or too narrow for the scaling.
        """
        key = spec.theta, head_dim
        if key not in self.made:  # at 131,072 positions the angles of one are 128 MiB
            rope = self._rope(spec.theta, head_dim)
            self.made[key] = LayerRotation(rope, self.config.layout, self.dims.max_seq_len)
        return self.made[key]

    def _rope(self, theta: float | None, head_dim: int) -> Rope:
        config = self.config
        return Rope(
            theta=theta if theta is not None else config.theta,
            width=config.width(head_dim),
            scaling=config.scaling,
            factor=config.factor,
            original=config.original_max_seq_len or self.dims.max_seq_len,
            low_freq_factor=config.low_freq_factor,
            high_freq_factor=config.high_freq_factor,
            beta_fast=config.beta_fast,
            beta_slow=config.beta_slow,
        )


class LayerRotation(LayerPosition):
    """Turns queries and keys; angles are computed in fp32 whatever the precision of training."""

    def __init__(self, rope: Rope, layout: Layout, max_seq_len: int) -> None:
        super().__init__()
        self.rope, self.pairs, self.max_seq_len = rope, layout, max_seq_len
        self.width, self.layout = rope.width, LAYOUTS[layout]
        self.frequencies, self.factor = rope.frequencies()
        self.cos_TH: Tensor
        self.sin_TH: Tensor
        cos_TH, sin_TH = self._angles(torch.arange(max_seq_len, device="cpu"))  # on meta it would load dynamo
        self.register_buffer("cos_TH", cos_TH, persistent=False)
        self.register_buffer("sin_TH", sin_TH, persistent=False)

    @cached_property
    def _half_split(self) -> "LayerRotation":
        return LayerRotation(self.rope, Layout.half, self.max_seq_len)

    def half_split(self) -> "LayerRotation":
        """This rotation in the half-split layout; layers that turn alike have one between them."""
        return self if self.pairs == Layout.half else self._half_split

    def _angles(self, pos_T: Tensor) -> tuple[Tensor, Tensor]:
        angle_TP = pos_T.float()[:, None] * self.frequencies.to(pos_T.device)
        cos_TP, sin_TP = angle_TP.cos() * self.factor, angle_TP.sin() * self.factor
        # The sign of the rotation is folded into the table.
        return self.layout.join(cos_TP, cos_TP), self.layout.join(-sin_TP, sin_TP)

    def rotate(self, q_BTNH: Tensor, k_BTKH: Tensor, pos_T: range) -> tuple[Tensor, Tensor]:
        """Turn new queries and keys by their position."""
        if pos_T.stop <= self.cos_TH.shape[0]:
            cos_TH, sin_TH = self.cos_TH[pos_T.start : pos_T.stop], self.sin_TH[pos_T.start : pos_T.stop]
        else:
            cos_TH, sin_TH = self._angles(torch.arange(pos_T.start, pos_T.stop, device=q_BTNH.device))
        cos_T1H, sin_T1H = (t[:, None, :].to(q_BTNH.dtype) for t in (cos_TH, sin_TH))
        return self._turn(q_BTNH, cos_T1H, sin_T1H), self._turn(k_BTKH, cos_T1H, sin_T1H)

    def _turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if x.shape[-1] == self.width:
            return torch.addcmul(x * cos, self.layout.partner(x), sin)
        first, rest = x[..., : self.width], x[..., self.width :]
        return torch.cat((torch.addcmul(first * cos, self.layout.partner(first), sin), rest), dim=-1)


@dataclass(frozen=True)
class Pairing:
    """A layout: where the two numbers of a pair stand."""

    join: Callable[[Tensor, Tensor], Tensor]
    """Puts the first and the second numbers of the pairs, (…, r/2) each, in their places."""
    partner: Callable[[Tensor], Tensor]
    """Puts at each place the other number of its pair."""


LAYOUTS: dict[str, Pairing] = {
    "half": Pairing(
        join=lambda first, second: torch.cat((first, second), dim=-1),
        partner=lambda x: torch.roll(x, x.shape[-1] // 2, dims=-1),
    ),
    "interleaved": Pairing(
        join=lambda first, second: torch.stack((first, second), dim=-1).flatten(-2),
        partner=lambda x: x.reshape(*x.shape[:-1], -1, 2).flip(-1).flatten(-2),
    ),
}
"""From the name of a layout to where its pairs stand."""
