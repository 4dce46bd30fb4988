"""Which keys a query may see: all earlier ones, or fewer, by one of the rules here.

Query at position t, key at s, always s <= t. ``Sliding``, width W: s > t - W, W keys with the query's own
(arXiv:2310.06825, section 2; kernels that count earlier keys alone mean W + 1). ``Chunked``, width C:
floor(s / C) = floor(t / C), the local layers of Llama 4. ``Strided``, ``Columns`` and the unions of each with what
is near: arXiv:1904.10509, section 4.2. ``SlidingAndFirst``: arXiv:2004.05150, section 3.1, causal.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.model.block_attention import BandBlocks, Blocks, ChunkBlocks, ColumnBlocks, HeadBlocks, StrideBlocks
from lab.model.block_merge import block_and_columns, near_and_strided
from lab.model.spans import Spans, joined


class Mask(ABC):
    """A rule of which earlier keys a query may see, beside the causal one."""

    @abstractmethod
    def allows(self, t_T1: Tensor, s_S: Tensor) -> Tensor:
        """Whether the query at each position may see each key that is not after it, (T, S) or (N, T, S)."""

    def keeps(self, n_tokens: int) -> Spans:
        """Which of the first ``n_tokens`` positions a query to come may see, so that a cache has to hold them."""
        return joined(range(n_tokens))

    @property
    def blocks(self) -> Blocks | None:
        """A way to compute it that leaves out most of the keys it hides; None: there is none."""
        return None


@dataclass(frozen=True)
class Full(Mask):
    """All earlier keys."""

    def allows(self, t_T1: Tensor, s_S: Tensor) -> Tensor:
        """Every one."""
        return s_S <= t_T1


@dataclass(frozen=True)
class Sliding(Mask):
    """The latest keys."""

    window: int
    """Keys in reach, the query's own counted."""

    def allows(self, t_T1: Tensor, s_S: Tensor) -> Tensor:
        """Those less than a window back."""
        return s_S > t_T1 - self.window

    def keeps(self, n_tokens: int) -> Spans:
        """A window."""
        return joined(latest(n_tokens, self.window))

    @property
    def blocks(self) -> Blocks:
        """Runs of queries."""
        return BandBlocks(self.window)


@dataclass(frozen=True)
class SlidingAndFirst(Mask):
    """The latest keys and the first of the sequence."""

    window: int
    """Latest keys in reach, the query's own counted."""
    n_first: int
    """First keys, in reach of all; queries there see all that is before them."""

    def allows(self, t_T1: Tensor, s_S: Tensor) -> Tensor:
        """Either."""
        return (s_S > t_T1 - self.window) | (s_S < self.n_first)

    def keeps(self, n_tokens: int) -> Spans:
        """A window and the first ones."""
        return joined(range(min(n_tokens, self.n_first)), latest(n_tokens, self.window))

    @property
    def blocks(self) -> Blocks:
        """Runs of queries, each with the first keys too."""
        return BandBlocks(self.window, self.n_first)


@dataclass(frozen=True)
class Chunked(Mask):
    """The keys of the query's own chunk."""

    window: int
    """Positions of a chunk."""

    def allows(self, t_T1: Tensor, s_S: Tensor) -> Tensor:
        """Those from the chunk's start on."""
        return s_S >= t_T1 - t_T1 % self.window

    def keeps(self, n_tokens: int) -> Spans:
        """As many as a chunk has, whatever has begun of the next."""
        return joined(latest(n_tokens, self.window))

    @property
    def blocks(self) -> Blocks:
        """Chunks."""
        return ChunkBlocks(self.window)


@dataclass(frozen=True)
class Strided(Mask):
    """Every so many-th key, counted back from the query's own; in the end each is seen by some query to come."""

    stride: int
    """Distance of the keys in reach."""

    def allows(self, t_T1: Tensor, s_S: Tensor) -> Tensor:
        """Those a multiple of the stride back."""
        return (t_T1 - s_S) % self.stride == 0

    @property
    def blocks(self) -> Blocks:
        """Residue classes."""
        return StrideBlocks(self.stride)


@dataclass(frozen=True)
class NearAndStrided(Mask):
    """The keys up to one stride back, and every stride's one before them."""

    stride: int
    """Both the reach and the distance."""

    def allows(self, t_T1: Tensor, s_S: Tensor) -> Tensor:
        """Either."""
        return (s_S >= t_T1 - self.stride) | ((t_T1 - s_S) % self.stride == 0)

    @property
    def blocks(self) -> Blocks:
        """Runs and classes under one softmax."""
        return near_and_strided(self.stride)


@dataclass(frozen=True)
class Columns(Mask):
    """The last keys of each block; a query before the first of them, which would see none, sees itself."""

    window: int
    """Positions of a block."""
    columns: int
    """Keys of each that may be seen."""

    def allows(self, t_T1: Tensor, s_S: Tensor) -> Tensor:
        """Those at a block's end."""
        first = self.window - self.columns
        return (s_S % self.window >= first) | ((s_S == t_T1) & (t_T1 < first))

    def keeps(self, n_tokens: int) -> Spans:
        """The columns so far."""
        firsts = range(self.window - self.columns, n_tokens, self.window)
        return joined(*(range(first, min(first + self.columns, n_tokens)) for first in firsts))

    @property
    def blocks(self) -> Blocks:
        """Gathered keys."""
        return ColumnBlocks(self.window, self.columns)


@dataclass(frozen=True)
class ChunkAndColumns(Mask):
    """The keys of the query's own block and the last ones of each block."""

    window: int
    """Positions of a block."""
    columns: int
    """Keys of each that later blocks may see."""

    def allows(self, t_T1: Tensor, s_S: Tensor) -> Tensor:
        """Either."""
        return (s_S >= t_T1 - t_T1 % self.window) | (s_S % self.window >= self.window - self.columns)

    def keeps(self, n_tokens: int) -> Spans:
        """As many as a block has, and the columns before."""
        return joined(*Columns(self.window, self.columns).keeps(n_tokens), latest(n_tokens, self.window))

    @property
    def blocks(self) -> Blocks:
        """Blocks and gathered keys under one softmax."""
        return block_and_columns(self.window, self.columns)


@dataclass(frozen=True)
class HalfOfTheHeads(Mask):
    """One rule for the first half of the query heads, another for the rest."""

    first: Mask
    second: Mask
    n_heads: int
    """All of them, an even number."""

    def allows(self, t_T1: Tensor, s_S: Tensor) -> Tensor:
        """(N, T, S)."""
        halves = [mask.allows(t_T1, s_S).expand(self.n_heads // 2, -1, -1) for mask in (self.first, self.second)]
        return torch.cat(halves)

    def keeps(self, n_tokens: int) -> Spans:
        """What one of the halves keeps, for all heads."""
        return joined(*self.first.keeps(n_tokens), *self.second.keeps(n_tokens))

    @property
    def blocks(self) -> Blocks | None:
        """Each half in its way."""
        ways = self.first.blocks, self.second.blocks
        return None if ways[0] is None or ways[1] is None else HeadBlocks(ways[0], ways[1])


FULL = Full()
"""All earlier keys."""


def latest(n_tokens: int, window: int) -> range:
    """The last ``window`` of the first ``n_tokens`` positions."""
    return range(max(0, n_tokens - window), n_tokens)


def attention_mask(mask: Mask, pos_T: range, pos_S: range | Spans, like: Tensor) -> Tensor:
    """0 where a query may see a key, minus infinity where not; (T, S) or (N, T, S), type and device of ``like``."""
    spans = (pos_S,) if isinstance(pos_S, range) else pos_S
    size = len(pos_T), sum(map(len, spans))
    hidden_TS = torch.full(size, -math.inf, dtype=like.dtype, device=like.device)
    if mask == FULL:
        return hidden_TS.triu_(diagonal=pos_T.start - spans[0].start + 1)
    t_T1 = torch.arange(pos_T.start, pos_T.stop, device=like.device)[:, None]
    s_S = torch.cat([torch.arange(span.start, span.stop, device=like.device) for span in spans])
    allowed = mask.allows(t_T1, s_S) & (s_S <= t_T1)
    return hidden_TS.expand_as(allowed).masked_fill(allowed, 0)
