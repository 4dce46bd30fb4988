"""The branches of native sparse attention and their cache: arXiv:2502.11089, equation 5."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.model.attention import KVCache
from lab.model.attention_mask import Sliding, attention_mask
from lab.model.attn import AttnParts, Losses
from lab.model.layer_spec import LayerSpec
from lab.model.layers import Linear
from lab.model.nsa_blocks import BlockMap, Sizes, block_scores, choose, hidden_blocks, hidden_tokens
from lab.model.nsa_tiles import chosen_attention, window_attention
from lab.model.position import LayerPosition
from lab.model.sizes import Dims
from lab.model.softmax_attention import SoftmaxAttention

QUERIES_AT_ONCE = 1024
"""Queries that meet the compressed keys at a time; blocks that none of them may see are left out."""


@dataclass
class Cache:
    """Keys and values of each branch; ``tail`` are those of tokens that blocks to come are made of."""

    window: KVCache
    selected: KVCache = field(default_factory=lambda: KVCache(keep=None))
    compressed: KVCache = field(default_factory=lambda: KVCache(keep=None))
    tail: KVCache = field(default_factory=lambda: KVCache(keep=None))


@dataclass(frozen=True, kw_only=True)
class Biases:
    """Which projections have one."""

    q: bool
    k: bool
    v: bool
    gate: bool
    out: bool


class NativeSparseAttention(SoftmaxAttention):
    """One set of queries, three of keys and values."""

    mask_note = "upper bound: all compressed, few in full"

    def __init__(
        self,
        sizes: Sizes,
        dims: Dims,
        n_kv_heads: int,
        scale: float,
        biases: Biases,
        layer: LayerSpec,
        parts: AttnParts,
    ) -> None:
        super().__init__(layer, parts)
        self.sizes, self.n_heads, self.n_kv_heads, self.head_dim = sizes, dims.n_heads, n_kv_heads, dims.head_dim
        self.groups = self.n_heads // n_kv_heads
        n_keys = n_kv_heads * self.head_dim
        self.q = Linear(dims.dim, self.n_heads * self.head_dim, bias=biases.q)
        self.k_compressed = Linear(dims.dim, n_keys, bias=biases.k)
        self.v_compressed = Linear(dims.dim, n_keys, bias=biases.v)
        self.k_selected = Linear(dims.dim, n_keys, bias=biases.k)
        self.v_selected = Linear(dims.dim, n_keys, bias=biases.v)
        self.k_window = Linear(dims.dim, n_keys, bias=biases.k)
        self.v_window = Linear(dims.dim, n_keys, bias=biases.v)
        self.k_map, self.v_map = BlockMap(self.head_dim, sizes), BlockMap(self.head_dim, sizes)
        self.gate = Linear(dims.dim, 3 * self.n_heads, bias=biases.gate)
        self.out = Linear(self.n_heads * self.head_dim, dims.dim, bias=biases.out)
        self.take(parts.position(self.head_dim), parts.stability.attention(layer, dims, n_kv_heads))
        if type(self.position).score_bias is not LayerPosition.score_bias:
            self.path = "plain"
        self.scale = self.stability.scale or scale

    def forward(
        self,
        x_BTD: Tensor,
        cache: Cache | None = None,
        offset: int = 0,
        shared: dict[str, Any] | None = None,
    ) -> tuple[Tensor, Losses]:
        """Attend by the three branches, and add them up by their gates."""
        cache = self.new_cache() if cache is None else cache
        pos_T = range(offset, offset + x_BTD.shape[1])
        q_BTNH = self._heads(self.q(x_BTD))
        compressed_BTNH, chosen = self._compressed(x_BTD, q_BTNH, cache, pos_T)
        k_BTKH, v_BTKH = self._heads(self.k_selected(x_BTD)), self._heads(self.v_selected(x_BTD))
        turned_BTNH, ready_BTNH, k_BTKH, v_BTKH = self._prepared(q_BTNH, k_BTKH, v_BTKH, pos_T)
        k_BSKH, v_BSKH = cache.selected.append(k_BTKH, v_BTKH)
        bias = self.position.score_bias(turned_BTNH, pos_T, range(pos_T.stop), self.scale)
        selected_BTNH = self._selected(ready_BTNH, k_BSKH, v_BSKH, chosen, pos_T, bias)
        k_BTKH, v_BTKH = self._heads(self.k_window(x_BTD)), self._heads(self.v_window(x_BTD))
        _, ready_BTNH, k_BTKH, v_BTKH = self._prepared(q_BTNH, k_BTKH, v_BTKH, pos_T)
        k_BSKH, v_BSKH = cache.window.append(k_BTKH, v_BTKH)
        window_BTNH = self._window(ready_BTNH, k_BSKH, v_BSKH, pos_T, bias)
        compressed, selected, window = torch.unflatten(torch.sigmoid(self.gate(x_BTD)), -1, (3, -1, 1)).unbind(
            dim=2
        )
        y_BTNH = compressed * compressed_BTNH + selected * selected_BTNH + window * window_BTNH
        return self.out(y_BTNH.flatten(2)), {}

    def _heads(self, x_BTR: Tensor) -> Tensor:
        return torch.unflatten(x_BTR, -1, (-1, self.head_dim))

    def _prepared(
        self, q_BTNH: Tensor, k_BTKH: Tensor, v_BTKH: Tensor, pos_T: range
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries as positions leave them, and what enters the products."""
        q_BTNH, k_BTKH, v_BTKH = self.stability.qkv(q_BTNH, k_BTKH, v_BTKH)
        turned_BTNH, k_BTKH = self.position.rotate(q_BTNH, k_BTKH, pos_T)
        q_BTNH, k_BTKH = self.stability.rotated(turned_BTNH, k_BTKH, pos_T)
        return turned_BTNH, q_BTNH, k_BTKH, v_BTKH

    def _compressed(
        self, x_BTD: Tensor, q_BTNH: Tensor, cache: Cache, pos_T: range
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The compressed branch, and the blocks that its weights choose."""
        k_BSKH, v_BSKH = cache.tail.append(
            self._heads(self.k_compressed(x_BTD)), self._heads(self.v_compressed(x_BTD))
        )
        k_BEKH, v_BEKH = self.k_map(k_BSKH), self.v_map(v_BSKH)
        used = k_BEKH.shape[1] * self.sizes.stride
        cache.tail.k_BSKH, cache.tail.v_BSKH = k_BSKH[:, used:], v_BSKH[:, used:]
        q_BTNH, k_BEKH, v_BEKH = self.stability.qkv(q_BTNH, k_BEKH, v_BEKH)
        q_BTNH, k_BEKH = self.stability.rotated(q_BTNH, k_BEKH, pos_T)
        k_BEKH, v_BEKH = cache.compressed.append(k_BEKH, v_BEKH)
        n_blocks, step = self.sizes.selectable(pos_T.stop), len(pos_T) if self.path == "plain" else QUERIES_AT_ONCE
        pieces, chosen, seen = [], [], []
        for start in range(0, len(pos_T), step):
            here_T = pos_T[start : start + step]
            y_BTNH, found = self._over_blocks(q_BTNH[:, start : start + step], k_BEKH, v_BEKH, n_blocks, here_T)
            pieces.append(y_BTNH)
            chosen.append(found[0])
            seen.append(found[1])
        return torch.cat(pieces, dim=1), (torch.cat(chosen, dim=2), torch.cat(seen, dim=2))

    def _over_blocks(
        self, q_BTNH: Tensor, k_BEKH: Tensor, v_BEKH: Tensor, n_blocks: int, pos_T: range
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Attend to completed blocks; queries before the first one get zero, and blocks in order."""
        blind = min(max(self.sizes.block - 1 - pos_T.start, 0), len(pos_T))
        blocks = slice(self.sizes.completed(pos_T.stop))
        hidden_TE = hidden_blocks(self.sizes, blocks.stop, pos_T[blind:], q_BTNH)
        weights_BNTE = self._weights(q_BTNH[:, blind:], k_BEKH[:, blocks], hidden_TE)
        y_BTNH = self._sums(self._dropped(weights_BNTE), v_BEKH[:, blocks])
        with torch.no_grad():
            wide = torch.promote_types(weights_BNTE.dtype, torch.float32)
            weights_BKTE = torch.unflatten(weights_BNTE, 1, (self.n_kv_heads, self.groups)).sum(dim=2, dtype=wide)
            scores_BKTI = block_scores(weights_BKTE, self.sizes, n_blocks)
            chosen = choose(F.pad(scores_BKTI, (0, 0, blind, 0)), self.sizes, pos_T)
        return F.pad(y_BTNH, (0, 0, 0, 0, blind, 0)), chosen

    def _selected(
        self,
        q_BTNH: Tensor,
        k_BSKH: Tensor,
        v_BSKH: Tensor,
        chosen: tuple[Tensor, Tensor],
        pos_T: range,
        bias: Tensor | None,
    ) -> Tensor:
        """The branch of the chosen blocks."""
        if self.path == "plain" or len(pos_T) < self.sizes.select_block:
            hidden_BKTS = hidden_tokens(*chosen, self.sizes, pos_T, pos_T.stop)
            hidden_BNTS = hidden_BKTS.repeat_interleave(self.groups, dim=1)
            return self._dense(q_BTNH, k_BSKH, v_BSKH, hidden_BNTS, pos_T, range(pos_T.stop), bias)
        q_ATGH = torch.unflatten(q_BTNH, 2, (self.n_kv_heads, self.groups)).transpose(1, 2).flatten(0, 1)
        k_ASH, v_ASH = (x.transpose(1, 2).flatten(0, 1) for x in (k_BSKH, v_BSKH))
        of_A = (chosen[0].flatten(0, 1), chosen[1].flatten(0, 1))
        y_ATGH = chosen_attention(q_ATGH, k_ASH, v_ASH, of_A, pos_T, self.sizes.select_block, self.scale)
        return torch.unflatten(y_ATGH, 0, (-1, self.n_kv_heads)).transpose(1, 2).flatten(2, 3)

    def _window(self, q_BTNH: Tensor, k_BSKH: Tensor, v_BSKH: Tensor, pos_T: range, bias: Tensor | None) -> Tensor:
        """The branch of the latest tokens."""
        pos_S, window = range(pos_T.stop - k_BSKH.shape[1], pos_T.stop), self.sizes.window
        if self.path != "plain":
            return window_attention(q_BTNH, k_BSKH, v_BSKH, pos_T, pos_S, window, self.scale)
        hidden_TS = attention_mask(Sliding(window), pos_T, pos_S, q_BTNH) < 0
        bias = None if bias is None else bias[..., pos_S.start :]
        return self._dense(q_BTNH, k_BSKH, v_BSKH, hidden_TS, pos_T, pos_S, bias)

    def _dense(
        self,
        q_BTNH: Tensor,
        k_BSKH: Tensor,
        v_BSKH: Tensor,
        hidden: Tensor,
        pos_T: range,
        pos_S: range,
        bias: Tensor | None,
    ) -> Tensor:
        weights_BNTS = self._dropped(self._weights(q_BTNH, k_BSKH, hidden, bias))
        y_BTNH = self._sums(weights_BNTS, v_BSKH)
        extra = self.position.value_bias(weights_BNTS, pos_T, pos_S)
        return y_BTNH if extra is None else y_BTNH + extra

    def _weights(self, q_BTNH: Tensor, k_BSKH: Tensor, hidden: Tensor, bias: Tensor | None = None) -> Tensor:
        """Softmax over the keys that are not hidden, (B, N, T, S); each query sees one."""
        q_BKRH = torch.unflatten(q_BTNH, 2, (self.n_kv_heads, self.groups)).permute(0, 2, 3, 1, 4).flatten(2, 3)
        scores_BKRS = q_BKRH * self.scale @ k_BSKH.permute(0, 2, 3, 1)
        scores_BNTS = torch.unflatten(scores_BKRS, 2, (self.groups, q_BTNH.shape[1])).flatten(1, 2)
        scores_BNTS = self.stability.scores(scores_BNTS if bias is None else scores_BNTS + bias)
        return torch.softmax(scores_BNTS.masked_fill(hidden, -math.inf), dim=-1)

    def _dropped(self, weights_BNTS: Tensor) -> Tensor:
        return weights_BNTS if self.dropout is None else self.dropout(weights_BNTS)

    def _sums(self, weights_BNTS: Tensor, v_BSKH: Tensor) -> Tensor:
        weights_BKRS = torch.unflatten(weights_BNTS, 1, (self.n_kv_heads, self.groups)).flatten(2, 3)
        y_BKRH = weights_BKRS.to(v_BSKH.dtype) @ v_BSKH.transpose(1, 2)
        return torch.unflatten(y_BKRH, 2, (self.groups, weights_BNTS.shape[2])).flatten(1, 2).transpose(1, 2)

    def new_cache(self) -> Cache:
        """An empty cache."""
        return Cache(window=KVCache(keep=self.sizes.window))

    def cache_bytes(self, n_tokens: int, *, element_bytes: int) -> int:
        """2 K H numbers for each token, token of the window, complete block and token of the blocks to come."""
        blocks = self.sizes.completed(n_tokens)
        rows = n_tokens + min(n_tokens, self.sizes.window) + blocks + n_tokens - blocks * self.sizes.stride
        return 2 * self.n_kv_heads * self.head_dim * rows * element_bytes

    def flops(self, seq_len: int) -> float:
        """4 N H a key of each branch, hidden ones not left out: S selected, S of the window, S/d compressed.

        What the fast path saves is not taken off. The maps to compressed keys and values count once a block and
        group, in place of once a token.
        """
        blocks = self.sizes.completed(seq_len)
        sighted = max(0, seq_len - self.sizes.block + 1) / seq_len
        products = 4.0 * self.n_heads * self.head_dim * (2 * seq_len + sighted * blocks)
        maps = 2.0 * (self.k_map.weights() + self.v_map.weights()) * (self.n_kv_heads * blocks / seq_len - 1)
        return products + maps + self.position.flops(seq_len)
