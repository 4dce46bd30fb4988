"""Scaled dot-product attention with grouped key/value heads: arXiv:1706.03762, 3.2; arXiv:2305.13245, 2.2.

MHA is K = N, MQA is K = 1, GQA what lies between.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lab.component import check, check_number
from lab.errors import ConfigError
from lab.model.attention_mask import Mask
from lab.model.attn import Attention, AttnConfig, AttnParts, Losses
from lab.model.layer_spec import LayerSpec
from lab.model.layers import Linear
from lab.model.sizes import Dims
from lab.model.softmax_attention import SoftmaxAttention
from lab.model.spans import Spans, joined, places

SCALES = {"inv_sqrt_head_dim": -0.5, "inv_head_dim": -1.0}
"""Factors of the scores that are a power of the width of a key."""


@dataclass(frozen=True, kw_only=True)
class DotProductConfig(AttnConfig):
    """What MHA, GQA and MQA have in common."""

    q_bias: bool
    """Whether the query projection has a bias."""
    k_bias: bool
    """Whether the key projection has a bias; without positions the softmax cannot see it."""
    v_bias: bool
    """Whether the value projection has a bias."""
    out_bias: bool
    """Whether the output projection has a bias."""
    scale: int | float | str | None
    """Factor of q·k: a number, ``inv_sqrt_head_dim`` or ``inv_head_dim``; null: 1/sqrt(head_dim), or what ``init``
    was made for, as T5's for 1."""

    nope_every: int | None
    """Every how many layers the last one goes without positions, as 4 in SmolLM3; null: none does."""

    def __post_init__(self) -> None:
        check_scale(self.scale)
        if self.nope_every is not None:
            check_number("nope_every", self.nope_every, least=1)

    def layer(self, index: int, dims: Dims) -> LayerSpec:
        """Full attention; positions in all layers but the last of every ``nope_every``."""
        return LayerSpec(index=index, position_on=not last_of(self.nope_every, index))

    @abstractmethod
    def kv_heads(self, dims: Dims) -> int:
        """Number of key/value heads K."""

    def build(self, dims: Dims, layer: LayerSpec, parts: AttnParts) -> Attention:
        """The branch of one layer.

        Raises:
            ConfigError: K does not divide the number of query heads.
        """
        n_kv_heads = self.kv_heads(dims)
        if dims.n_heads % n_kv_heads:
            raise ConfigError(f"attn.n_kv_heads {n_kv_heads} does not divide model.n_heads {dims.n_heads}")
        return self.branch(dims, layer, parts)

    def branch(self, dims: Dims, layer: LayerSpec, parts: AttnParts) -> Attention:
        """The module of one layer, for sizes that go together; kinds with one of their own make that."""
        return DotProductAttention(self, dims, layer, parts)


@dataclass(frozen=True, kw_only=True)
class GroupedConfig(DotProductConfig):
    """Dot-product attention in which the number of key/value heads is free."""

    n_kv_heads: int | None
    """Number of key/value heads K, a divisor of the number of query heads; null: from ``heads_per_kv``."""
    heads_per_kv: int
    """Query heads that share a key/value head, used when ``n_kv_heads`` is null: K is the largest divisor of the
    number of query heads that gives each at least so many, or 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("heads_per_kv", self.heads_per_kv, least=1)
        if self.n_kv_heads is not None:
            check_number("n_kv_heads", self.n_kv_heads, least=1)

    def kv_heads(self, dims: Dims) -> int:
        """As configured, or by the ratio."""
        return self.kv_groups(dims.n_heads)

    def kv_groups(self, n_heads: int) -> int:
        """In how many groups so many heads share keys and values."""
        if self.n_kv_heads is not None:
            return self.n_kv_heads
        most = max(1, n_heads // self.heads_per_kv)
        return next(k for k in range(most, 0, -1) if n_heads % k == 0)


def last_of(every: int | None, index: int) -> bool:
    """Whether layer ``index``, from 0, is the last of a group of ``every`` layers."""
    return every is not None and (index + 1) % every == 0


def check_scale(scale: float | str | None) -> None:
    """Refuse a scale that is neither a name nor a positive number.

    Raises:
        ConfigError: names what is allowed.
    """
    number = not isinstance(scale, str)
    ok = scale is None or (math.isfinite(scale) and scale > 0 if number else scale in SCALES)  # type: ignore[arg-type,operator]
    check(ok, "scale", scale, f"must be a number > 0, null, or one of {', '.join(SCALES)}")


def score_scale(scale: float | str | None, head_dim: int, wanted: float | None) -> float:
    """The factor of q·k that a setting means for keys of a width; ``wanted`` is what ``init`` was made for."""
    if scale is None:
        return head_dim**-0.5 if wanted is None else wanted
    return float(head_dim ** SCALES[scale] if isinstance(scale, str) else scale)


@dataclass
class KVCache:
    """Keys (rotated) and values of the positions so far, or of the latest that can still be seen."""

    keep: int | None
    """Positions that a later query may see; None: all."""
    k_BSKH: Tensor | None = None
    v_BSKH: Tensor | None = None

    def append(self, k_BTKH: Tensor, v_BTKH: Tensor) -> tuple[Tensor, Tensor]:
        """Add T positions; returns those that may be seen from one of them, and all T."""
        k_BSKH, v_BSKH = k_BTKH, v_BTKH
        if self.k_BSKH is not None and self.v_BSKH is not None:
            k_BSKH = torch.cat((self.k_BSKH, k_BTKH), dim=1)
            v_BSKH = torch.cat((self.v_BSKH, v_BTKH), dim=1)
        first = 0 if self.keep is None else max(0, k_BSKH.shape[1] - self.keep)
        self.k_BSKH, self.v_BSKH = k_BSKH[:, first:], v_BSKH[:, first:]
        return k_BSKH, v_BSKH


@dataclass
class MaskedCache:
    """Keys (rotated) and values of the positions so far that a mask lets later queries see."""

    mask: Mask
    k_BSKH: Tensor | None = None
    v_BSKH: Tensor | None = None

    def append(self, k_BTKH: Tensor, v_BTKH: Tensor, pos_T: range) -> tuple[Tensor, Tensor, Spans]:
        """Add those of new positions; returns what one of them may see, all the new ones, and where all that is."""
        k_BSKH, v_BSKH = k_BTKH, v_BTKH
        if self.k_BSKH is not None and self.v_BSKH is not None:
            k_BSKH = torch.cat((self.k_BSKH, k_BTKH), dim=1)
            v_BSKH = torch.cat((self.v_BSKH, v_BTKH), dim=1)
        pos_S = joined(*self.mask.keeps(pos_T.start), pos_T)
        kept = places(self.mask.keeps(pos_T.stop), pos_S)
        self.k_BSKH, self.v_BSKH = rows_at(k_BSKH, kept), rows_at(v_BSKH, kept)
        return k_BSKH, v_BSKH, pos_S


def rows_at(x_BSKH: Tensor, parts: list[slice]) -> Tensor:
    """Some of the positions; a copy where there is a gap between them."""
    return x_BSKH[:, parts[0]] if len(parts) == 1 else torch.cat([x_BSKH[:, :0], *(x_BSKH[:, p] for p in parts)], 1)


class DotProductAttention(SoftmaxAttention):
    """Softmax attention over the earlier positions that the layer's mask lets a query see."""

    def __init__(self, config: DotProductConfig, dims: Dims, layer: LayerSpec, parts: AttnParts) -> None:
        super().__init__(layer, parts)
        self.n_heads, self.n_kv_heads, self.head_dim = dims.n_heads, config.kv_heads(dims), dims.head_dim
        self.q = Linear(dims.dim, self.n_heads * self.head_dim, bias=config.q_bias)
        self.k = Linear(dims.dim, self.n_kv_heads * self.head_dim, bias=config.k_bias)
        self.v = Linear(dims.dim, self.n_kv_heads * self.head_dim, bias=config.v_bias)
        self.out = Linear(self.n_heads * self.head_dim, dims.dim, bias=config.out_bias)
        self.take(parts.position(self.head_dim), parts.stability.attention(layer, dims, self.n_kv_heads))
        self.scale = self.stability.scale or score_scale(config.scale, self.head_dim, parts.scale(self.head_dim))

    def forward(
        self,
        x_BTD: Tensor,
        cache: MaskedCache | None = None,
        offset: int = 0,
        shared: dict[str, Any] | None = None,
    ) -> tuple[Tensor, Losses]:
        """Attend to what the mask lets each query see."""
        batch, length, _ = x_BTD.shape
        q_BTNH = self.q(x_BTD).view(batch, length, self.n_heads, self.head_dim)
        k_BTKH = self.k(x_BTD).view(batch, length, self.n_kv_heads, self.head_dim)
        v_BTKH = self.v(x_BTD).view(batch, length, self.n_kv_heads, self.head_dim)
        q_BTNH, k_BTKH, v_BTKH = self.stability.qkv(q_BTNH, k_BTKH, v_BTKH)
        v_BTKH = self.values(v_BTKH, shared)
        pos_T = range(offset, offset + length)
        turned_BTNH, k_BTKH = self.position.rotate(q_BTNH, k_BTKH, pos_T)
        q_BTNH, k_BTKH = self.stability.rotated(turned_BTNH, k_BTKH, pos_T)
        pos_S: Spans = (pos_T,)
        k_BSKH, v_BSKH = k_BTKH, v_BTKH
        if cache is not None:
            k_BSKH, v_BSKH, pos_S = cache.append(k_BTKH, v_BTKH, pos_T)
        bias = self.position_bias(turned_BTNH, pos_T, pos_S)
        y_BTNH = self.attend(q_BTNH, k_BSKH, v_BSKH, pos_T, pos_S, bias)
        return self.out(self.heads(y_BTNH, x_BTD).flatten(2)), {}

    def values(self, v_BTKH: Tensor, shared: dict[str, Any] | None) -> Tensor:
        """Change new values before they are cached; here they stay."""
        return v_BTKH

    def heads(self, y_BTNH: Tensor, x_BTD: Tensor) -> Tensor:
        """Change what the heads found before the output projection; here it stays."""
        return y_BTNH

    def new_cache(self) -> MaskedCache:
        """An empty cache."""
        return MaskedCache(self.layer.mask)

    def cache_bytes(self, n_tokens: int, *, element_bytes: int) -> int:
        """2 K H numbers per token that can still be seen: arXiv:2405.04434, table 1."""
        seen = sum(map(len, self.layer.mask.keeps(n_tokens)))
        return 2 * self.n_kv_heads * self.head_dim * seen * element_bytes

    def flops(self, seq_len: int) -> float:
        """4 N H S per token: scores and weighted sum over the keys that are computed, S of them where all are."""
        return 4.0 * self.n_heads * self.head_dim * self.keys(seq_len) + self.position.flops(seq_len)
