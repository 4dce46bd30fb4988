"""Attention to the keys that an indexer finds best, DeepSeek sparse attention: report of V3.2-Exp, section 2.

``lab.model.indexer`` scores all earlier keys, a light product but one of T S numbers; each query attends to the k
of the largest scores. In stage ``dense``, the authors' warm-up, queries attend to everything, the indexer learns by
its divergence from the attention over all keys, and every other parameter of the model is frozen. In stage
``sparse`` all is trained, the indexer by its divergence over the chosen keys, with its input detached. The
divergence is the auxiliary loss ``indexer_kl``, computed in training mode without a cache.

On the path ``plain`` all scores are computed and those of other keys hidden. The other takes a block of queries at
a time, once more when gradients are computed so that no more than a block is held, and gathers the chosen keys and
values where they are few enough for that to be faster. Sequences of at most k tokens are attended to as dense
attention does.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lab.component import check_number
from lab.model.attention_mask import FULL, attention_mask
from lab.model.attn import AttnConfig, AttnParts, Losses
from lab.model.indexer import Index, Indexer, best, divergence, places
from lab.model.sizes import Dims
from lab.model.softmax_attention import SoftmaxAttention

BLOCK = 128
"""Queries that are computed at once off the plain path."""
KEYS_OF_A_GATHER = 16
"""Keys that are multiplied in the time that one is gathered, and its gradient scattered, roughly."""


class Stage(StrEnum):
    """What is attended to, and over what the indexer learns."""

    sparse = "sparse"
    dense = "dense"


@dataclass(frozen=True, kw_only=True)
class IndexedConfig(AttnConfig):
    """The indexer's sizes, and how many keys it chooses."""

    top_k: int | None
    """Keys that a query attends to, k; null: ``top_k_share`` of model.max_seq_len."""
    top_k_share: float
    """That number over model.max_seq_len, used when ``top_k`` is null, in (0, 1]."""
    index_n_heads: int | None
    """Heads of the indexer; null: ``index_n_heads_share`` of model.n_heads."""
    index_n_heads_share: float
    """That number over model.n_heads, used when ``index_n_heads`` is null; 64/128 in DeepSeek-V3.2."""
    index_head_dim: int | None
    """Width of the indexer's queries and keys; null: model.head_dim, as in DeepSeek-V3.2."""
    index_rope_share: float
    """Part of that width that is rotated where ``position`` rotates, in (0, 1], to an even number; 64/128 there."""
    stage: Stage
    """``sparse``, or ``dense``: the warm-up, in which queries attend to everything and the indexer alone trains."""

    def trains(self, name: str) -> bool:
        """The indexer in both stages, the rest in the sparse one."""
        return self.stage == Stage.sparse or ".attn.indexer." in name

    def check_indexer(self) -> None:
        """Refuse values out of range.

        Raises:
            ConfigError: names the key.
        """
        check_number("top_k_share", self.top_k_share, above=0, most=1)
        check_number("index_n_heads_share", self.index_n_heads_share, above=0)
        check_number("index_rope_share", self.index_rope_share, above=0, most=1)
        for key, least in (("top_k", 1), ("index_n_heads", 1), ("index_head_dim", 2)):
            if getattr(self, key) is not None:
                check_number(key, getattr(self, key), least=least)

    def n_chosen(self, dims: Dims) -> int:
        """Keys that a query attends to."""
        return self.top_k if self.top_k is not None else max(1, round(self.top_k_share * dims.max_seq_len))

    def indexer(self, query_dim: int, dims: Dims, parts: AttnParts) -> Indexer:
        """The indexer of a layer whose queries are made of vectors of width ``query_dim``."""
        head_dim = self.index_head_dim if self.index_head_dim is not None else max(2, dims.head_dim)
        n_heads = self.index_n_heads or max(1, round(self.index_n_heads_share * dims.n_heads))
        rope_dim = max(1, round(self.index_rope_share * head_dim) // 2) * 2
        return Indexer(
            query_dim,
            dims.dim,
            n_heads=n_heads,
            head_dim=head_dim,
            rope_dim=rope_dim,
            position=parts.position(rope_dim),
        )


@dataclass
class IndexedCache:
    """What the attention caches, and the index keys of the positions so far."""

    main: Any
    k_BSH: Tensor | None = None

    def append(self, index: Index) -> Index:
        """Add the index keys of T positions; returns the index with all of them."""
        self.k_BSH = index.k_BSH if self.k_BSH is None else torch.cat((self.k_BSH, index.k_BSH), dim=1)
        return Index(index.q_BTIH, index.w_BTI, self.k_BSH)


class IndexedAttention(SoftmaxAttention):
    """What attentions to chosen keys have in common, whatever their keys are made of."""

    indexer: Indexer
    n_chosen: int
    stage: Stage
    selects = True
    mask_note = "upper bound: of these the indexer picks some"

    def add_indexer(self, config: IndexedConfig, query_dim: int, dims: Dims, parts: AttnParts) -> None:
        """Own an indexer."""
        self.indexer = config.indexer(query_dim, dims, parts)
        self.n_chosen, self.stage = config.n_chosen(dims), config.stage

    def dense(self, pos_S: range) -> bool:
        """Whether everything is attended to."""
        return self.stage == Stage.dense or len(pos_S) <= self.n_chosen

    def gathers(self, pos_S: range) -> bool:
        """Whether chosen keys are gathered: not where hooks see all scores, nor where most keys are chosen."""
        return self.path != "plain" and not self.dense(pos_S) and KEYS_OF_A_GATHER * self.n_chosen <= len(pos_S)

    def attend_best(self, heads: "Heads", index: Index, *, learns: bool) -> tuple[Tensor, Losses]:
        """Weighted sums of the values of chosen keys, (B, T, N, width of a value), and the indexer's loss."""
        pos_T, pos_S = heads.pos_T, heads.pos_S
        if self.dense(pos_S):
            bias = self.position.score_bias(heads.turned_BTNH, pos_T, pos_S, self.scale)
            y_BTNH = self.attend(heads.q_BTNH, heads.k_BSKH, heads.v_BSKH, pos_T, (pos_S,), bias)
            if not learns:
                return y_BTNH, {}
            _, nats = self._by_blocks(self._taught, heads, index)
            return y_BTNH, {"indexer_kl": nats / (y_BTNH.shape[0] * len(pos_T))}
        if self.path == "plain":
            y_BTNH, nats = self._masked(heads, index)
        else:
            compute = self._gathered if self.gathers(pos_S) else self._masked
            y_BTNH, nats = self._by_blocks(compute, heads, index)
        return y_BTNH, {"indexer_kl": nats / (y_BTNH.shape[0] * len(pos_T))} if learns else {}

    def _by_blocks(
        self, compute: Callable[["Heads", Index], tuple[Tensor, Tensor]], heads: "Heads", index: Index
    ) -> tuple[Tensor, Tensor]:
        """What ``compute`` gives for blocks of queries, each with the keys up to its last query, put together."""
        length, past = len(heads.pos_T), len(heads.pos_S) - len(heads.pos_T)
        ys, nats = [], []
        for first in range(0, length, BLOCK):
            last = min(first + BLOCK, length)
            part = heads.block(first, last, past + last), index.block(first, last, past + last)
            if torch.is_grad_enabled() and length > BLOCK and not torch.compiler.is_compiling():
                y, n = checkpoint(compute, *part, use_reentrant=False, preserve_rng_state=False)
            else:
                y, n = compute(*part)
            ys.append(y)
            nats.append(n)
        return torch.cat(ys, dim=1), torch.stack(nats).sum()

    def _hidden(self, heads: "Heads", index: Index) -> Tensor:
        like = heads.q_BTNH.new_empty((), dtype=index.dtype)
        return attention_mask(FULL, heads.pos_T, heads.pos_S, like)

    def _weights(self, heads: "Heads", seen_BTS: Tensor) -> Tensor:
        """Attention to the keys that are seen, (B, N, T, S), by plain products."""
        n_kv_heads = heads.k_BSKH.shape[2]
        q_BKGTH = grouped(heads.q_BTNH, n_kv_heads).permute(0, 2, 3, 1, 4)
        k_BK1HS = heads.k_BSKH.permute(0, 2, 3, 1).unsqueeze(2)
        scores_BNTS = (q_BKGTH @ k_BK1HS * self.scale).flatten(1, 2)
        bias = self.position.score_bias(heads.turned_BTNH, heads.pos_T, heads.pos_S, self.scale)
        scores_BNTS = self.stability.scores(scores_BNTS if bias is None else scores_BNTS + bias)
        return self.weigh(scores_BNTS.masked_fill(~seen_BTS.unsqueeze(1), -math.inf))

    def _masked(self, heads: "Heads", index: Index) -> tuple[Tensor, Tensor]:
        """All scores, of which those of chosen keys count."""
        index_BTS = index.scores(self._hidden(heads, index))
        chosen_BTS = best(index_BTS, min(self.n_chosen, len(heads.pos_S)))
        weights_BNTS = self._weights(heads, chosen_BTS)
        nats = divergence(weights_BNTS.mean(1), index_BTS, chosen_BTS)
        weights_BNTS = weights_BNTS if self.dropout is None else self.dropout(weights_BNTS)
        weights_BTKGS = grouped(weights_BNTS.transpose(1, 2), heads.v_BSKH.shape[2])
        y_BKGTH = weights_BTKGS.permute(0, 2, 3, 1, 4) @ heads.v_BSKH.transpose(1, 2).unsqueeze(2)
        y_BTNH = y_BKGTH.permute(0, 3, 1, 2, 4).flatten(2, 3)
        extra = self.position.value_bias(weights_BNTS, heads.pos_T, heads.pos_S)
        return (y_BTNH if extra is None else y_BTNH + extra), nats

    def _taught(self, heads: "Heads", index: Index) -> tuple[Tensor, Tensor]:
        """The indexer's loss over all keys; the first is empty, attention having been computed."""
        hidden_TS = self._hidden(heads, index)
        seen_BTS = (hidden_TS == 0).unsqueeze(0)
        with torch.no_grad():
            p_BTS = self._weights(heads, seen_BTS).mean(1)
        index_BTS = index.scores(hidden_TS)
        return p_BTS.new_empty(0, 0), divergence(p_BTS, index_BTS, seen_BTS.expand_as(index_BTS))

    def _gathered(self, heads: "Heads", index: Index) -> tuple[Tensor, Tensor]:
        """Products with chosen keys alone, which are gathered for each query."""
        index_BTS = index.scores(self._hidden(heads, index))
        n_keys = min(self.n_chosen, len(heads.pos_S))
        at_BTX, held_BTX = places(best(index_BTS, n_keys), n_keys)
        k_BKTXH, v_BKTXH = (rows(x_BSKH, at_BTX) for x_BSKH in (heads.k_BSKH, heads.v_BSKH))
        n_kv_heads = k_BKTXH.shape[1]
        q_BKTGH = grouped(heads.q_BTNH, n_kv_heads).transpose(1, 2)
        scores_BKTGX = q_BKTGH @ k_BKTXH.transpose(-1, -2) * self.scale
        scores_BNTX = scores_BKTGX.transpose(2, 3).flatten(1, 2)
        bias = self.position.score_bias(heads.turned_BTNH, heads.pos_T, heads.pos_S, self.scale)
        if bias is not None:
            of_all_BNTS = bias.expand(scores_BNTX.shape[:3] + bias.shape[-1:])
            at_BNTX = at_BTX.unsqueeze(1).expand_as(scores_BNTX)
            scores_BNTX = scores_BNTX + of_all_BNTS.gather(-1, at_BNTX)
        weights_BNTX = self.weigh(scores_BNTX.masked_fill(~held_BTX.unsqueeze(1), -math.inf))
        nats = divergence(weights_BNTX.mean(1), index_BTS.gather(-1, at_BTX), held_BTX)
        weights_BKTGX = grouped(weights_BNTX.transpose(1, 2), n_kv_heads).transpose(1, 2)
        return (weights_BKTGX @ v_BKTXH).transpose(1, 2).flatten(2, 3), nats


@dataclass(frozen=True)
class Heads:
    """Queries at ``pos_T``, and keys and values at ``pos_S``."""

    q_BTNH: Tensor
    turned_BTNH: Tensor
    """The part of queries that positions act on, as they left it."""
    k_BSKH: Tensor
    v_BSKH: Tensor
    pos_T: range
    pos_S: range

    def block(self, first: int, last: int, n_keys: int) -> "Heads":
        """The queries from ``first`` up to ``last``, and the first ``n_keys`` keys."""
        return Heads(
            self.q_BTNH[:, first:last],
            self.turned_BTNH[:, first:last],
            self.k_BSKH[:, :n_keys],
            self.v_BSKH[:, :n_keys],
            self.pos_T[first:last],
            self.pos_S[:n_keys],
        )


def grouped(x_BTNH: Tensor, n_kv_heads: int) -> Tensor:
    """Heads that share a key/value head together, (B, T, K, G, H)."""
    batch, length, n_heads, width = x_BTNH.shape
    return x_BTNH.reshape(batch, length, n_kv_heads, n_heads // n_kv_heads, width)


def rows(x_BSKH: Tensor, at_BTX: Tensor) -> Tensor:
    """The vectors of each key/value head at given places of each sequence, (B, K, T, X, H)."""
    batch, source, n_kv_heads, width = x_BSKH.shape
    first_A11 = source * torch.arange(batch * n_kv_heads, device=at_BTX.device)
    at_BKTX = at_BTX.unsqueeze(1) + first_A11.view(batch, n_kv_heads, 1, 1)
    return F.embedding(at_BKTX, x_BSKH.transpose(1, 2).reshape(-1, width))
