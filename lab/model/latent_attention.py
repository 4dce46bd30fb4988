"""Attention over latents, in its plain form and in the folded one that decodes without forming keys and values.

Plain: every query head has a key W_UK c and a value W_UV c of its own, made of the latent c of each token. Folded:
q · (W_UK c) = (W_UKᵀ q) · c, so that all heads share one key, the latent with the rotated part beside it, and one
value, the latent itself, on whose weighted sum W_UV acts afterwards: arXiv:2405.04434, after equation 13 and in its
appendix. The rotated part is kept apart because a rotation between W_UK and the query would stop this.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from lab.component import check_number
from lab.errors import ConfigError
from lab.model.attn import Attention, AttnConfig, AttnParts, Losses
from lab.model.layer_spec import LayerSpec
from lab.model.layers import Linear, RMSNorm
from lab.model.sizes import Dims
from lab.model.softmax_attention import SoftmaxAttention


@dataclass(frozen=True, kw_only=True)
class LatentConfig(AttnConfig):
    """Widths of the latents and of the parts of a head; model.head_dim is that of a key's part without position."""

    kv_rank: int | None
    """Width of the latent that keys and values come from; null: ``kv_rank_share`` of model.dim."""
    kv_rank_share: float
    """That width over model.dim, used when ``kv_rank`` is null; 512/7168 in DeepSeek-V3."""
    q_rank: int | None
    """Width of the latent that queries come from; null: ``q_rank_share`` of model.dim."""
    q_rank_share: float | None
    """That width over model.dim, used when ``q_rank`` is null; null: queries are not compressed, as in V2-Lite."""
    rope_dim: int | None
    """Width of the part that positions act on; null: half of model.head_dim, as in DeepSeek-V2."""
    v_dim: int | None
    """Width of a value; null: model.head_dim."""
    eps: float
    """Of the RMSNorms of the latents; 1e-6 in the DeepSeek code whatever the other norms have."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)
        check_number("kv_rank_share", self.kv_rank_share, above=0)
        if self.q_rank_share is not None:
            check_number("q_rank_share", self.q_rank_share, above=0)
        for key in ("kv_rank", "q_rank", "rope_dim", "v_dim"):
            if getattr(self, key) is not None:
                check_number(key, getattr(self, key), least=1)

    def kv_width(self, dims: Dims) -> int:
        """Width of the latent of keys and values."""
        return self.kv_rank if self.kv_rank is not None else max(1, round(self.kv_rank_share * dims.dim))

    def q_width(self, dims: Dims) -> int | None:
        """Width of the latent of queries; None: there is none."""
        if self.q_rank is not None or self.q_rank_share is None:
            return self.q_rank
        return max(1, round(self.q_rank_share * dims.dim))

    def rope_width(self, dims: Dims) -> int:
        """Width of the part that positions act on, even unless it was given."""
        return self.rope_dim if self.rope_dim is not None else max(2, dims.head_dim // 4 * 2)

    def build(self, dims: Dims, layer: LayerSpec, parts: AttnParts) -> Attention:
        """The branch of one layer.

        Raises:
            ConfigError: a position or stability choice needs the keys or values that MLA never forms.
        """
        return LatentAttention(self, dims, layer, parts)


@dataclass
class LatentCache:
    """Latents and rotated shared keys of the positions so far."""

    c_BSL: Tensor | None = None
    k_BSH: Tensor | None = None

    def append(self, c_BTL: Tensor, k_BTH: Tensor) -> tuple[Tensor, Tensor]:
        """Add T positions; returns all of them."""
        self.c_BSL = c_BTL if self.c_BSL is None else torch.cat((self.c_BSL, c_BTL), dim=1)
        self.k_BSH = k_BTH if self.k_BSH is None else torch.cat((self.k_BSH, k_BTH), dim=1)
        return self.c_BSL, self.k_BSH


class LatentAttention(SoftmaxAttention):
    """Every query head has a key and a value head of its own, made of the latent, or all share the latent."""

    def __init__(self, config: LatentConfig, dims: Dims, layer: LayerSpec, parts: AttnParts) -> None:
        super().__init__(layer, parts)
        self.n_heads = self.n_kv_heads = dims.n_heads
        self.rope_dim, self.v_dim = config.rope_width(dims), config.v_dim or dims.head_dim
        self.kv_rank, q_rank = config.kv_width(dims), config.q_width(dims)
        self.key_dim = dims.head_dim + self.rope_dim
        n_queries = self.n_heads * self.key_dim
        if q_rank is None:
            self.q: nn.Module = Linear(dims.dim, n_queries, bias=False)
        else:
            self.q_down = Linear(dims.dim, q_rank, bias=False)
            self.q_norm = RMSNorm(q_rank, eps=config.eps)
            self.q_up = Linear(q_rank, n_queries, bias=False)
        self.q_rank = q_rank
        self.kv_down = Linear(dims.dim, self.kv_rank, bias=False)
        self.kv_norm = RMSNorm(self.kv_rank, eps=config.eps)
        self.k_rope = Linear(dims.dim, self.rope_dim, bias=False)
        self.k_up = Linear(self.kv_rank, self.n_heads * dims.head_dim, bias=False)
        self.v_up = Linear(self.kv_rank, self.n_heads * self.v_dim, bias=False)
        self.out = Linear(self.n_heads * self.v_dim, dims.dim, bias=False)
        stability = parts.stability.attention(layer, dims, self.n_kv_heads)
        refuse(config.name, stability)
        self.take(parts.position(self.rope_dim), stability)
        if self.position.biases_values:
            raise ConfigError(
                f"attn={config.name} has no values per position that a position component could change"
            )
        self.scale = self.stability.scale or parts.scale(self.key_dim) or self.key_dim**-0.5

    def forward(
        self,
        x_BTD: Tensor,
        cache: LatentCache | None = None,
        offset: int = 0,
        shared: dict[str, Any] | None = None,
    ) -> tuple[Tensor, Losses]:
        """Attend to all positions up to each query's own."""
        pos_T = range(offset, offset + x_BTD.shape[1])
        q_BTNH, turned_BTNH, c_BSL, k_BSH = self.project(x_BTD, self.query_latent(x_BTD), cache, pos_T)
        pos_S = range(pos_T.stop - c_BSL.shape[1], pos_T.stop)
        fold = cache is not None and self.folding_is_less(len(pos_T), len(pos_S))
        q_BTNH, k_BSKH, v_BSKH = (self.folded if fold else self.formed)(q_BTNH, c_BSL, k_BSH)
        bias = self.position.score_bias(turned_BTNH, pos_T, pos_S, self.scale)
        # The kernels would copy the latents, which all heads share, for each head.
        attend = self._plain if fold else self.attend
        y_BTNH = attend(q_BTNH, k_BSKH, v_BSKH, pos_T, (pos_S,), bias)
        return self.out((self.values_of(y_BTNH) if fold else y_BTNH).flatten(2)), {}

    def query_latent(self, x_BTD: Tensor) -> Tensor:
        """What queries are made of: their latent, normalised, or the input itself."""
        return x_BTD if self.q_rank is None else cast(Tensor, self.q_norm(self.q_down(x_BTD)))

    def project(
        self, x_BTD: Tensor, latent_BTL: Tensor, cache: LatentCache | None, pos_T: range
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, their rotated part alone, and latents and rotated keys of all positions so far."""
        q_BTNH = (self.q if self.q_rank is None else self.q_up)(latent_BTL).unflatten(-1, (self.n_heads, -1))
        content_BTNH, rope_BTNH = q_BTNH.split((self.key_dim - self.rope_dim, self.rope_dim), dim=-1)
        c_BTL, k_BT1H = self.kv_norm(self.kv_down(x_BTD)), self.k_rope(x_BTD).unsqueeze(2)
        rope_BTNH, k_BT1H = self.position.rotate(rope_BTNH, k_BT1H, pos_T)
        k_BTH = k_BT1H[:, :, 0]
        c_BSL, k_BSH = (c_BTL, k_BTH) if cache is None else cache.append(c_BTL, k_BTH)
        # Hooks that change keys or values were refused: what is given in their place is not read.
        q_BTNH, _, _ = self.stability.qkv(torch.cat((content_BTNH, rope_BTNH), dim=-1), k_BT1H, k_BT1H)
        q_BTNH, _ = self.stability.rotated(q_BTNH, k_BT1H, pos_T)
        return q_BTNH, rope_BTNH, c_BSL, k_BSH

    def folding_is_less(self, n_queries: int, n_keys: int) -> bool:
        """Whether the folded form takes fewer products of numbers than the plain one: where few queries decode."""
        folds = n_queries * self.kv_rank, n_queries * n_keys * (2 * self.kv_rank + self.rope_dim)
        forms = n_keys * self.kv_rank, n_queries * n_keys * (self.key_dim + self.v_dim)
        made = self.key_dim - self.rope_dim + self.v_dim
        return folds[0] * made + folds[1] < forms[0] * made + forms[1]

    def formed(self, q_BTNH: Tensor, c_BSL: Tensor, k_BSH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of the plain form."""
        content_BSNH = self.k_up(c_BSL).unflatten(-1, (self.n_heads, -1))
        shared_BSNH = k_BSH.unsqueeze(2).expand(-1, -1, self.n_heads, -1)
        k_BSNH = torch.cat((content_BSNH, shared_BSNH), dim=-1)
        return q_BTNH, k_BSNH, self.v_up(c_BSL).unflatten(-1, (self.n_heads, self.v_dim))

    def folded(self, q_BTNH: Tensor, c_BSL: Tensor, k_BSH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries with W_UK folded in, and the one key and value that all of them share."""
        n_content = self.key_dim - self.rope_dim
        up_NHL = weight_of(self.k_up).view(self.n_heads, n_content, self.kv_rank)
        latent_BTNL = torch.einsum("btnh,nhl->btnl", q_BTNH[..., :n_content], up_NHL)
        keys_BS1H = torch.cat((c_BSL, k_BSH), dim=-1).unsqueeze(2)
        return torch.cat((latent_BTNL, q_BTNH[..., n_content:]), dim=-1), keys_BS1H, c_BSL.unsqueeze(2)

    def values_of(self, latent_BTNL: Tensor) -> Tensor:
        """W_UV of what each head of the folded form gives."""
        up_NHL = weight_of(self.v_up).view(self.n_heads, self.v_dim, self.kv_rank)
        return torch.einsum("btnl,nhl->btnh", latent_BTNL, up_NHL)

    def new_cache(self) -> Any:
        """An empty cache."""
        return LatentCache()

    def cache_bytes(self, n_tokens: int, *, element_bytes: int) -> int:
        """A latent and one shared key per token: arXiv:2405.04434, table 1."""
        return (self.kv_rank + self.rope_dim) * n_tokens * element_bytes

    def flops(self, seq_len: int) -> float:
        """2 N S (key width + value width) per token: scores and weighted sum, with keys and values formed."""
        products = 2.0 * self.n_heads * seq_len * (self.key_dim + self.v_dim)
        return products + self.position.flops(seq_len)


def weight_of(linear: Linear) -> Tensor:
    """The weight that a linear map uses."""
    return linear.weight if linear.reparametrize is None else cast(Tensor, linear.reparametrize(linear.weight))


def refuse(name: str, stability: nn.Module | None) -> None:
    """Refuse hooks that change keys or values, which are not formed when MLA decodes from its cache.

    Raises:
        ConfigError: names the choice.
    """
    for hook, part in stability.named_children() if stability is not None else ():
        if getattr(part, "changes_keys", False):
            raise ConfigError(
                f"attn={name} with stability={hook} is refused: MLA decodes from a latent and never forms the keys "
                "and values that it would change; its latents are normalised already"
            )
