"""Which keys a query may see: all earlier ones, the latest few, or those of its own chunk.

Query at position t, key at s, always s <= t. ``Sliding``, width W: s > t - W, W keys with the query's own
(arXiv:2310.06825, section 2; kernels that count earlier keys alone mean W + 1). ``Chunked``, width C:
floor(s / C) = floor(t / C), the local layers of Llama 4.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor


class Mask(ABC):
    """A rule of which earlier keys a query may see, beside the causal one."""

    @abstractmethod
    def allows(self, t_T1: Tensor, s_S: Tensor) -> Tensor:
        """Whether the query at each position may see each key that is not after it, (T, S) or (N, T, S)."""

    @property
    def keeps(self) -> int | None:
        """Latest positions that a query to come may still see, so that a cache has to hold them; None: all."""
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

    @property
    def keeps(self) -> int:
        """A window."""
        return self.window


@dataclass(frozen=True)
class Chunked(Mask):
    """The keys of the query's own chunk."""

    window: int
    """Positions of a chunk."""

    def allows(self, t_T1: Tensor, s_S: Tensor) -> Tensor:
        """Those from the chunk's start on."""
        return s_S >= t_T1 - t_T1 % self.window

    @property
    def keeps(self) -> int:
        """A chunk."""
        return self.window


FULL = Full()
"""All earlier keys."""


def attention_mask(mask: Mask, pos_T: range, pos_S: range, like: Tensor) -> Tensor:
    """0 where a query may see a key, minus infinity where not; (T, S) or (N, T, S), type and device of ``like``."""
    hidden_TS = torch.full((len(pos_T), len(pos_S)), -math.inf, dtype=like.dtype, device=like.device)
    if mask == FULL:
        return hidden_TS.triu_(diagonal=pos_T.start - pos_S.start + 1)
    t_T1 = torch.arange(pos_T.start, pos_T.stop, device=like.device)[:, None]
    s_S = torch.arange(pos_S.start, pos_S.stop, device=like.device)
    return hidden_TS.masked_fill(mask.allows(t_T1, s_S) & (s_S <= t_T1), 0)
