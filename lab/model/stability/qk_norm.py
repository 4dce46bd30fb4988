"""QK-norm, a norm of queries and keys, by default RMS over each head before positions: arXiv:2302.05442, section 2.

The forms in use differ: ``rmsnorm`` over the head in Qwen3 and with ``rmsnorm_1p`` in Gemma 3; ``rmsnorm`` over
the full width in OLMo 2; ``layernorm_no_bias`` over the full width in DCLM, over the head in ViT-22B (the paper
above) and with a gain for every head in Command R+; ``layernorm`` with a gain and bias for every head in
Chameleon; ``rmsnorm_plain`` after positions, in layers that have some, in Llama 4. ``l2`` is arXiv:2010.04245,
unit length, and one learned scalar per layer in place of 1/sqrt(H), which starts at log2(L² - L). There
L is the 97.5th percentile of the lengths in the training data; here all sequences are as long as
model.max_seq_len.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.component import check, check_number
from lab.model.layer_spec import LayerSpec
from lab.model.layers import LayerNormPlain, RMSNormPlain
from lab.model.sizes import Dims
from lab.model.stability import AttentionStability, Stability, StabilityConfig
from lab.model.stability._norm_kind import build_norm


class Norm(StrEnum):
    """What is done to a vector."""

    rmsnorm = "rmsnorm"
    rmsnorm_1p = "rmsnorm_1p"
    rmsnorm_plain = "rmsnorm_plain"
    layernorm = "layernorm"
    layernorm_no_bias = "layernorm_no_bias"
    l2 = "l2"


class Over(StrEnum):
    """Which vector it is done to."""

    head = "head"
    full = "full"
    per_head = "per_head"


class Order(StrEnum):
    """On which side of the positions."""

    before = "before"
    after = "after"


class Layers(StrEnum):
    """In which layers."""

    all = "all"
    positioned = "positioned"


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Bounds attention scores; in the RMS forms over a head by the square root of its width, times the gains."""

    norm: Norm
    """``rmsnorm``, ``rmsnorm_1p`` (gain stored as distance from one), ``rmsnorm_plain`` (no gain), ``layernorm``,
    ``layernorm_no_bias``, or ``l2``: unit length and a learned factor in place of the attention's scale."""
    over: Over
    """``head``: statistics over a head, one gain of its width for all; ``per_head``: a gain (and bias) for each
    head; ``full``: statistics and gain over all heads together."""
    order: Order
    """``before`` or ``after`` the positions act."""
    layers: Layers
    """``all``, or those in which positions act (``positioned``)."""
    eps: float
    """Added to the mean square or variance; for ``l2`` the smallest length that is divided by."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)
        without_head_gain = self.norm == Norm.l2 or (self.norm == Norm.rmsnorm_plain and self.over != Over.full)
        ok = self.over == Over.head or not without_head_gain
        check(ok, "over", str(self.over), f"must be head with norm '{self.norm}', which has no gain for each head")

    def build(self, dims: Dims) -> Stability:
        """Norms in the layers that were asked for."""
        return QKNorm(self)


class QKNorm(Stability):
    """Makes the norms of each layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def attention(self, spec: LayerSpec, dims: Dims, n_kv_heads: int) -> AttentionStability | None:
        """A norm for queries and one for keys."""
        if self.config.layers == Layers.positioned and not spec.position_on:
            return None
        return AttentionQKNorm(self.config, dims, n_kv_heads)


class AttentionQKNorm(AttentionStability):
    """Normalises queries and keys."""

    changes_keys = True

    def __init__(self, config: Config, dims: Dims, n_kv_heads: int) -> None:
        super().__init__()
        self.after = config.order == Order.after
        self.q, self.k = _norm(config, dims.n_heads, dims), _norm(config, n_kv_heads, dims)
        if config.norm == Norm.l2:
            pairs = dims.max_seq_len**2 - dims.max_seq_len
            self.q = UnitLength(eps=config.eps, length=math.log2(max(2, pairs)))
            self.scale = 1.0

    def qkv(self, q_BTNH: Tensor, k_BTKH: Tensor, v_BTKH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalise q and k, if that comes first."""
        return (q_BTNH, k_BTKH, v_BTKH) if self.after else (self.q(q_BTNH), self.k(k_BTKH), v_BTKH)

    def rotated(self, q_BTNH: Tensor, k_BTKH: Tensor, pos_T: range) -> tuple[Tensor, Tensor]:
        """Normalise q and k, if that comes last."""
        return (self.q(q_BTNH), self.k(k_BTKH)) if self.after else (q_BTNH, k_BTKH)


def _norm(config: Config, n_heads: int, dims: Dims) -> nn.Module:
    """The norm of the queries or of the keys."""
    if config.norm == Norm.l2:
        return UnitLength(eps=config.eps, length=None)
    if config.over == Over.full:
        return FullWidth(build_norm(config.norm, n_heads * dims.head_dim, eps=config.eps))
    if config.over == Over.per_head:
        return GainPerHead(config.norm, n_heads, dims.head_dim, eps=config.eps)
    return build_norm(config.norm, dims.head_dim, eps=config.eps)


class FullWidth(nn.Module):
    """Lets a norm act on all heads as one vector."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x_BTNH: Tensor) -> Tensor:
        """Normalise the heads of each position together."""
        y_BTNH: Tensor = self.norm(x_BTNH.flatten(-2)).view_as(x_BTNH)
        return y_BTNH


class GainPerHead(nn.Module):
    """Statistics over each head, then a gain (and bias) of its own for each; stored as one vector of all heads."""

    def __init__(self, norm: Norm, n_heads: int, head_dim: int, *, eps: float) -> None:
        super().__init__()
        centred = norm in (Norm.layernorm, Norm.layernorm_no_bias)
        self.plain = (LayerNormPlain if centred else RMSNormPlain)(head_dim, eps=eps)
        width, offset = n_heads * head_dim, norm == Norm.rmsnorm_1p
        self.gain = None if offset else nn.Parameter(torch.ones(width))
        self.gain_offset = nn.Parameter(torch.zeros(width)) if offset else None
        self.bias = nn.Parameter(torch.zeros(width)) if norm == Norm.layernorm else None

    def forward(self, x_BTNH: Tensor) -> Tensor:
        """Normalise each head, in the gain's precision; the result has the type of ``x_BTNH``."""
        gain = self.gain if self.gain_offset is None else 1 + self.gain_offset
        assert gain is not None
        y_BTNH: Tensor = self.plain(x_BTNH.to(gain.dtype)) * gain.view(x_BTNH.shape[-2:])
        y_BTNH = y_BTNH if self.bias is None else y_BTNH + self.bias.view(x_BTNH.shape[-2:])
        return y_BTNH.to(x_BTNH.dtype)


class UnitLength(nn.Module):
    """Divides a vector by its length, then multiplies by a learned one where given."""

    def __init__(self, *, eps: float, length: float | None) -> None:
        super().__init__()
        self.eps = eps
        self.length = None if length is None else nn.Parameter(torch.tensor(length))

    def forward(self, x: Tensor) -> Tensor:
        """Set the length of each vector, in fp32 at least; the result has the type of ``x``."""
        y = F.normalize(x.to(torch.promote_types(x.dtype, torch.float32)), dim=-1, eps=self.eps)
        return (y if self.length is None else y * self.length).to(x.dtype)
