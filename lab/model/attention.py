"""Scaled dot-product attention with grouped key/value heads: arXiv:1706.03762, 3.2; arXiv:2305.13245, 2.2.

Query head n reads key/value head n // (N / K): MHA is K = N, MQA is K = 1. Scores are scaled by 1/sqrt(H).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.errors import ConfigError
from lab.model.attn import Attention, AttnConfig, AttnParts, Losses
from lab.model.layer_spec import LayerSpec
from lab.model.layers import Linear
from lab.model.sizes import Dims
from lab.model.stability import AttentionStability


@dataclass(frozen=True, kw_only=True)
class DotProductConfig(AttnConfig):
    """What MHA, GQA and MQA have in common."""

    qkv_bias: bool
    """Whether the query, key and value projections have biases."""
    out_bias: bool
    """Whether the output projection has a bias."""

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
        return DotProductAttention(self, dims, layer, parts)


@dataclass
class KVCache:
    """Keys (rotated) and values of the positions so far."""

    k_BSKH: Tensor | None = None
    v_BSKH: Tensor | None = None

    def append(self, k_BTKH: Tensor, v_BTKH: Tensor) -> tuple[Tensor, Tensor]:
        """Add T positions; returns all of them."""
        if self.k_BSKH is None or self.v_BSKH is None:
            self.k_BSKH, self.v_BSKH = k_BTKH, v_BTKH
        else:
            self.k_BSKH = torch.cat((self.k_BSKH, k_BTKH), dim=1)
            self.v_BSKH = torch.cat((self.v_BSKH, v_BTKH), dim=1)
        return self.k_BSKH, self.v_BSKH


class DotProductAttention(Attention):
    """Softmax attention over all earlier positions."""

    def __init__(self, config: DotProductConfig, dims: Dims, layer: LayerSpec, parts: AttnParts) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = dims.n_heads, config.kv_heads(dims), dims.head_dim
        self.scale = 1 / math.sqrt(dims.head_dim)
        self.q = Linear(dims.dim, self.n_heads * self.head_dim, bias=config.qkv_bias)
        self.k = Linear(dims.dim, self.n_kv_heads * self.head_dim, bias=config.qkv_bias)
        self.v = Linear(dims.dim, self.n_kv_heads * self.head_dim, bias=config.qkv_bias)
        self.out = Linear(self.n_heads * self.head_dim, dims.dim, bias=config.out_bias)
        self.position = parts.position
        self.stability = parts.stability.attention(layer, dims, self.n_kv_heads) or AttentionStability()
        self.dropout = parts.regularization.attention(layer)
        seen = self.stability.changes_scores or self.position.biases_values or self.dropout is not None
        self.path = "plain" if seen else parts.path  # a fused kernel shows neither scores nor weights

    def forward(
        self,
        x_BTD: Tensor,
        cache: KVCache | None = None,
        offset: int = 0,
        shared: dict[str, Any] | None = None,
    ) -> tuple[Tensor, Losses]:
        """Attend to all positions up to each query's own."""
        batch, length, _ = x_BTD.shape
        q_BTNH = self.q(x_BTD).view(batch, length, self.n_heads, self.head_dim)
        k_BTKH = self.k(x_BTD).view(batch, length, self.n_kv_heads, self.head_dim)
        v_BTKH = self.v(x_BTD).view(batch, length, self.n_kv_heads, self.head_dim)
        q_BTNH, k_BTKH, v_BTKH = self.stability.qkv(q_BTNH, k_BTKH, v_BTKH)
        pos_T = range(offset, offset + length)
        q_BTNH, k_BTKH = self.position.rotate(q_BTNH, k_BTKH, pos_T)
        k_BSKH, v_BSKH = (k_BTKH, v_BTKH) if cache is None else cache.append(k_BTKH, v_BTKH)
        pos_S = range(pos_T.stop - k_BSKH.shape[1], pos_T.stop)
        attend = self._plain if self.path == "plain" else self._fused
        y_BTNH = attend(q_BTNH, k_BSKH, v_BSKH, pos_T, pos_S)
        return self.out(y_BTNH.flatten(2)), {}

    def _fused(self, q_BTNH: Tensor, k_BSKH: Tensor, v_BSKH: Tensor, pos_T: range, pos_S: range) -> Tensor:
        bias = self.position.score_bias(q_BTNH, pos_T, pos_S)
        plain_causal = bias is None and len(pos_T) == len(pos_S)
        mask = None
        if not plain_causal:
            mask = causal_mask(pos_T, pos_S, q_BTNH)
            mask = mask if bias is None else mask + bias
        y_BNTH = F.scaled_dot_product_attention(
            q_BTNH.transpose(1, 2),
            k_BSKH.transpose(1, 2),
            v_BSKH.transpose(1, 2),
            attn_mask=mask,
            is_causal=plain_causal,
            scale=self.scale,
            enable_gqa=self.n_kv_heads != self.n_heads,
        )
        return y_BNTH.transpose(1, 2)

    def _plain(self, q_BTNH: Tensor, k_BSKH: Tensor, v_BSKH: Tensor, pos_T: range, pos_S: range) -> Tensor:
        batch, length, source = q_BTNH.shape[0], len(pos_T), len(pos_S)
        kv_heads, groups = self.n_kv_heads, self.n_heads // self.n_kv_heads
        # Queries that share a key/value head become more rows of one product: (B K, G T, H) x (B K, H, S).
        q_BTKGH = q_BTNH.reshape(batch, length, kv_heads, groups, self.head_dim)
        q_ARH = q_BTKGH.permute(0, 2, 3, 1, 4).reshape(batch * kv_heads, groups * length, self.head_dim)
        k_AHS = k_BSKH.permute(0, 2, 3, 1).reshape(batch * kv_heads, self.head_dim, source)
        v_ASH = v_BSKH.transpose(1, 2).reshape(batch * kv_heads, source, self.head_dim)
        mask_TS = causal_mask(pos_T, pos_S, q_BTNH)
        bias = self.position.score_bias(q_BTNH, pos_T, pos_S)
        if bias is None and not self.stability.changes_scores:  # scale and mask within the product
            scores_ARS = torch.baddbmm(mask_TS.repeat(groups, 1), q_ARH, k_AHS, alpha=self.scale)
            weights_ARS = torch.softmax(scores_ARS, dim=-1)
        else:
            scores_BNTS = (q_ARH @ k_AHS * self.scale).view(batch, self.n_heads, length, source)
            scores_BNTS = self.stability.scores(scores_BNTS)
            scores_BNTS = scores_BNTS + (mask_TS if bias is None else mask_TS + bias)
            weights_ARS = torch.softmax(scores_BNTS, dim=-1).view(q_ARH.shape[0], -1, source)
        weights_BNTS = weights_ARS.view(batch, self.n_heads, length, source)
        if self.dropout is not None:
            weights_BNTS = self.dropout(weights_BNTS)
            weights_ARS = weights_BNTS.view_as(weights_ARS)
        y_BKGTH = (weights_ARS @ v_ASH).view(batch, kv_heads, groups, length, self.head_dim)
        y_BTNH = y_BKGTH.permute(0, 3, 1, 2, 4).reshape(batch, length, self.n_heads, self.head_dim)
        extra = self.position.value_bias(weights_BNTS, pos_T, pos_S)
        return y_BTNH if extra is None else y_BTNH + extra

    def new_cache(self) -> KVCache:
        """An empty cache."""
        return KVCache()

    def cache_bytes(self, n_tokens: int, *, element_bytes: int) -> int:
        """2 K H numbers per token: arXiv:2405.04434, table 1."""
        return 2 * self.n_kv_heads * self.head_dim * n_tokens * element_bytes

    def flops(self, seq_len: int) -> float:
        """4 N H S per token: scores and weighted sum over all S keys, the causal half not left out."""
        return 4.0 * self.n_heads * self.head_dim * seq_len


def causal_mask(pos_T: range, pos_S: range, like: Tensor) -> Tensor:
    """0 where a query may see a key, minus infinity where the key lies after it; (T, S), dtype of ``like``."""
    mask = torch.full((len(pos_T), len(pos_S)), -math.inf, dtype=like.dtype, device=like.device)
    return mask.triu_(diagonal=pos_T.start - pos_S.start + 1)
