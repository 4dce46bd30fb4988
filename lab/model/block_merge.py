"""Exact softmax attention over the union of two sparse patterns: scores by pieces of each, one softmax over both.

A fused kernel sees the keys of one pattern at a time, so that the two would have to be joined by their
normalisers, whose gradients no kernel gives; here the scores of a query, few as they are, are formed.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.model.block_attention import BandBlocks, Blocks, column_positions, rows


class Part(ABC):
    """Queries in pieces (G) of several rows (R), each with its own keys (S)."""

    @abstractmethod
    def keys(self, length: int) -> float:
        """Keys that a query is multiplied with, on the mean over a sequence."""

    @abstractmethod
    def pieces(self, q_BNTH: Tensor) -> Tensor:
        """Queries, or weights, (B, N, G, R, H)."""

    @abstractmethod
    def in_reach(self, k_BNTH: Tensor) -> Tensor:
        """Keys, or values, (B, N, G, S, H)."""

    @abstractmethod
    def allows(self, length: int, device: torch.device) -> Tensor:
        """Which keys a row sees, (G or 1, R, S)."""

    @abstractmethod
    def whole(self, x_BNGRX: Tensor, length: int) -> Tensor:
        """What ``pieces`` undoes: (B, N, T, X)."""


@dataclass(frozen=True)
class Near(Part):
    """Blocks of queries, with the keys of their block and a window before it."""

    block: int
    """Queries of a piece."""
    before: int
    """Keys of a piece before its queries."""
    window: int
    """Keys in reach of a query, its own counted."""

    def keys(self, length: int) -> float:
        """A block and what is before it."""
        return -(-length // self.block) * self.block * (self.before + self.block) / length

    def pieces(self, q_BNTH: Tensor) -> Tensor:
        """By block."""
        return rows(q_BNTH, self.block)

    def in_reach(self, k_BNTH: Tensor) -> Tensor:
        """With zeros before the sequence and after it."""
        padded_BNTH = F.pad(k_BNTH, (0, 0, self.before, -k_BNTH.shape[2] % self.block))
        return padded_BNTH.unfold(2, self.before + self.block, self.block).transpose(-1, -2)

    def allows(self, length: int, device: torch.device) -> Tensor:
        """Those of the window that exist."""
        start_G11 = torch.arange(0, length, self.block, device=device)[:, None, None]
        t_GR1 = start_G11 + torch.arange(self.block, device=device)[:, None]
        s_G1S = start_G11 + torch.arange(-self.before, self.block, device=device)
        return (s_G1S <= t_GR1) & (s_G1S > t_GR1 - self.window) & (s_G1S >= 0)

    def whole(self, x_BNGRX: Tensor, length: int) -> Tensor:
        """Block after block."""
        return x_BNGRX.flatten(2, 3)[:, :, :length]


@dataclass(frozen=True)
class Strides(Part):
    """Positions that are equal modulo a stride, further back than one stride: nearer ones are in the window."""

    stride: int
    """Distance of neighbours in a class."""

    def keys(self, length: int) -> float:
        """Those of a class."""
        return (-(-length // self.stride)) ** 2 * self.stride / length

    def pieces(self, q_BNTH: Tensor) -> Tensor:
        """By class."""
        return rows(q_BNTH, self.stride).transpose(2, 3)

    def in_reach(self, k_BNTH: Tensor) -> Tensor:
        """The class."""
        return self.pieces(k_BNTH)

    def allows(self, length: int, device: torch.device) -> Tensor:
        """Two strides back, and more."""
        s_S = torch.arange(-(-length // self.stride), device=device)
        return (s_S <= s_S[:, None] - 2)[None]

    def whole(self, x_BNGRX: Tensor, length: int) -> Tensor:
        """One of each class in turn."""
        return x_BNGRX.transpose(2, 3).flatten(2, 3)[:, :, :length]


@dataclass(frozen=True)
class EarlierColumns(Part):
    """The last keys of each earlier block."""

    block: int
    """Positions of a block."""
    columns: int
    """Keys of each."""

    def keys(self, length: int) -> float:
        """All columns."""
        return -(-length // self.block) * self.columns

    def pieces(self, q_BNTH: Tensor) -> Tensor:
        """All in one."""
        return q_BNTH[:, :, None]

    def in_reach(self, k_BNTH: Tensor) -> Tensor:
        """The columns."""
        return rows(k_BNTH, self.block)[:, :, :, self.block - self.columns :].flatten(2, 3)[:, :, None]

    def allows(self, length: int, device: torch.device) -> Tensor:
        """Those before the query's block."""
        t_T1 = torch.arange(length, device=device)[:, None]
        return (column_positions(self.block, self.columns, length, device) < t_T1 - t_T1 % self.block)[None]

    def whole(self, x_BNGRX: Tensor, length: int) -> Tensor:
        """As it is."""
        return x_BNGRX[:, :, 0]


@dataclass(frozen=True)
class JointBlocks(Blocks):
    """Two parts that have no key in common."""

    first: Part
    second: Part
    window: int
    """Positions of a block, or of a stride."""

    @property
    def least(self) -> int:
        """Two of them."""
        return 2 * self.window

    def keys(self, length: int) -> float:
        """Those of both."""
        return self.first.keys(length) + self.second.keys(length)

    def attend(self, q_BNTH: Tensor, k_BKTH: Tensor, v_BKTH: Tensor, scale: float) -> Tensor:
        """Scores of both, their softmax, and the sums of both."""
        length, groups = q_BNTH.shape[2], q_BNTH.shape[1] // k_BKTH.shape[1]
        k_BNTH, v_BNTH = (x.repeat_interleave(groups, dim=1) for x in (k_BKTH, v_BKTH))
        parts, scores = (self.first, self.second), []
        for part in parts:
            scores_BNGRS = part.pieces(q_BNTH) @ part.in_reach(k_BNTH).transpose(-1, -2) * scale
            hidden_GRS = ~part.allows(length, q_BNTH.device)
            scores.append(part.whole(scores_BNGRS.masked_fill(hidden_GRS, -torch.inf), length))
        weights_BNTS = torch.softmax(torch.cat(scores, dim=-1), dim=-1)
        y_BNTH = None
        split = torch.split(weights_BNTS, [s.shape[-1] for s in scores], dim=-1)
        for part, weights in zip(parts, split, strict=True):
            new_BNTH = part.whole(part.pieces(weights) @ part.in_reach(v_BNTH), length)
            y_BNTH = new_BNTH if y_BNTH is None else y_BNTH + new_BNTH
        assert y_BNTH is not None
        return y_BNTH


def near_and_strided(stride: int) -> JointBlocks:
    """The positions up to one stride back, and every stride's one before them."""
    band = BandBlocks(stride + 1)
    return JointBlocks(Near(band.run, band.before, stride + 1), Strides(stride), stride)


def block_and_columns(block: int, columns: int) -> JointBlocks:
    """The query's own block, and the last keys of those before it."""
    return JointBlocks(Near(block, 0, block), EarlierColumns(block, columns), block)
