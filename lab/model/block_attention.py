"""Exact softmax attention under sparse masks by dense pieces: the keys that no query of a piece sees are left out.

Each pattern sorts queries into pieces that share their keys, so that a fused kernel does the rest: near keys by
blocks of the sequence, strided ones by residue class, columns by gathering them. What a mask still hides inside a
piece is computed and thrown away. Which pieces are made depends on the shapes alone, never on a timing.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.model import stacking


class Blocks(ABC):
    """A way to compute one mask, for sequences that start at position 0."""

    @property
    @abstractmethod
    def least(self) -> int:
        """The shortest sequence for which it is taken; below, half of the pieces would be padding."""

    @abstractmethod
    def keys(self, length: int) -> float:
        """Keys that a query is multiplied with, hidden ones in the pieces counted, on the mean over a sequence."""

    @abstractmethod
    def attend(self, q_BNTH: Tensor, k_BKTH: Tensor, v_BKTH: Tensor, scale: float) -> Tensor:
        """Weighted sums of values, (B, N, T, H)."""


@dataclass(frozen=True)
class ChunkBlocks(Blocks):
    """Chunks of the sequence, each by itself."""

    window: int
    """Positions of a chunk."""

    @property
    def least(self) -> int:
        """Two chunks."""
        return 2 * self.window

    def keys(self, length: int) -> float:
        """A chunk, and what pads the last one."""
        return -(-length // self.window) * self.window**2 / length

    def attend(self, q_BNTH: Tensor, k_BKTH: Tensor, v_BKTH: Tensor, scale: float) -> Tensor:
        """Chunks become rows of the batch."""
        batch, length = q_BNTH.shape[0], q_BNTH.shape[2]
        q, k, v = (rows(x, self.window).transpose(1, 2).flatten(0, 1) for x in (q_BNTH, k_BKTH, v_BKTH))
        y_BGNRH = torch.unflatten(fused(q, k, v, scale), 0, (batch, -1))
        return y_BGNRH.transpose(1, 2).flatten(2, 3)[:, :, :length]


@dataclass(frozen=True)
class BandBlocks(Blocks):
    """Short runs of queries with the keys in reach of any of them, and with the first keys of the sequence."""

    window: int
    """Keys in reach of a query, its own counted."""
    n_first: int = 0
    """First keys of the sequence that all may see too."""

    @property
    def least(self) -> int:
        """Two windows, and the first keys."""
        return 2 * self.window + self.n_first

    @property
    def run(self) -> int:
        """Queries of a piece: at least a quarter of the window, so that a key is copied five times at the most."""
        return min(self.window, max(64, self.window // 4))

    @property
    def before(self) -> int:
        """Keys of a piece before its queries, in whole runs."""
        return -(-(self.window - 1) // self.run) * self.run

    @property
    def start(self) -> int:
        """Queries that are computed in one piece with all before them: windows there may touch the first keys."""
        return -(-(self.before + self.n_first) // self.run) * self.run

    def keys(self, length: int) -> float:
        """A window and a run, and the first keys."""
        runs = -(-(length - self.start) // self.run)
        return (self.start**2 + runs * self.run * (self.n_first + self.before + self.run)) / length

    def attend(self, q_BNTH: Tensor, k_BKTH: Tensor, v_BKTH: Tensor, scale: float) -> Tensor:
        """Runs become rows of the batch; all have the same mask."""
        batch, length = q_BNTH.shape[0], q_BNTH.shape[2]
        q_ANRH = rows(q_BNTH[:, :, self.start :], self.run).transpose(1, 2).flatten(0, 1)
        k, v = (self._in_reach(x) for x in (k_BKTH, v_BKTH))
        t_R1 = torch.arange(self.run, device=q_BNTH.device)[:, None] + self.before
        s_S = torch.arange(self.before + self.run, device=q_BNTH.device)
        mask_RS = F.pad((s_S <= t_R1) & (s_S > t_R1 - self.window), (self.n_first, 0), value=True)
        y_BGNRH = torch.unflatten(fused(q_ANRH, k, v, scale, mask_RS), 0, (batch, -1))
        y_BNTH = y_BGNRH.transpose(1, 2).flatten(2, 3)[:, :, : length - self.start]
        if self.start == 0:
            return y_BNTH
        q, k, v = (x[:, :, : self.start] for x in (q_BNTH, k_BKTH, v_BKTH))
        return torch.cat((fused(q, k, v, scale, self._start_mask(q.device)), y_BNTH), dim=2)

    def _in_reach(self, x_BKTH: Tensor) -> Tensor:
        """The keys of each run, (B runs, K, first keys and window and run, H)."""
        near_BKTH = x_BKTH[:, :, self.start - self.before :]
        padded_BKTH = F.pad(near_BKTH, (0, 0, 0, -(near_BKTH.shape[2] - self.before) % self.run))
        x_BGKSH = padded_BKTH.unfold(2, self.before + self.run, self.run).permute(0, 2, 1, 4, 3)
        if self.n_first:
            first_BGKSH = x_BKTH[:, None, :, : self.n_first].expand(-1, x_BGKSH.shape[1], -1, -1, -1)
            x_BGKSH = torch.cat((first_BGKSH, x_BGKSH), dim=3)
        return x_BGKSH.flatten(0, 1)

    def _start_mask(self, device: torch.device) -> Tensor:
        s_S = torch.arange(self.start, device=device)
        t_T1 = s_S[:, None]
        return (s_S <= t_T1) & ((s_S > t_T1 - self.window) | (s_S < self.n_first))


@dataclass(frozen=True)
class StrideBlocks(Blocks):
    """Positions that are equal modulo a stride, class by class."""

    stride: int
    """Distance of neighbours in a class."""

    @property
    def least(self) -> int:
        """Two positions in each class."""
        return 2 * self.stride

    def keys(self, length: int) -> float:
        """Those of a class."""
        return (-(-length // self.stride)) ** 2 * self.stride / length

    def attend(self, q_BNTH: Tensor, k_BKTH: Tensor, v_BKTH: Tensor, scale: float) -> Tensor:
        """Classes become rows of the batch."""
        batch, length = q_BNTH.shape[0], q_BNTH.shape[2]
        q, k, v = (rows(x, self.stride).permute(0, 3, 1, 2, 4).flatten(0, 1) for x in (q_BNTH, k_BKTH, v_BKTH))
        y_BRNGH = torch.unflatten(fused(q, k, v, scale), 0, (batch, -1))
        return y_BRNGH.permute(0, 2, 3, 1, 4).flatten(2, 3)[:, :, :length]


@dataclass(frozen=True)
class ColumnBlocks(Blocks):
    """All queries with the last keys of each block; those before the first such key have their own value."""

    window: int
    """Positions of a block."""
    columns: int
    """Keys of each."""

    @property
    def least(self) -> int:
        """Two blocks."""
        return 2 * self.window

    def keys(self, length: int) -> float:
        """The columns, for all queries that see one."""
        early = self.window - self.columns
        return -(-length // self.window) * self.columns * (length - early) / length

    def attend(self, q_BNTH: Tensor, k_BKTH: Tensor, v_BKTH: Tensor, scale: float) -> Tensor:
        """One product with the gathered keys."""
        length, early = q_BNTH.shape[2], self.window - self.columns
        k, v = (rows(x, self.window)[:, :, :, early:].flatten(2, 3) for x in (k_BKTH, v_BKTH))
        t_T1 = torch.arange(early, length, device=q_BNTH.device)[:, None]
        s_S = column_positions(self.window, self.columns, length, q_BNTH.device)
        own_BNTH = v_BKTH[:, :, :early].repeat_interleave(q_BNTH.shape[1] // v_BKTH.shape[1], dim=1)
        return torch.cat((own_BNTH, fused(q_BNTH[:, :, early:], k, v, scale, s_S <= t_T1)), dim=2)


@dataclass(frozen=True)
class HeadBlocks(Blocks):
    """One way for the first half of the heads, another for the rest."""

    first: Blocks
    second: Blocks

    @property
    def least(self) -> int:
        """Enough for both."""
        return max(self.first.least, self.second.least)

    def keys(self, length: int) -> float:
        """Half of each."""
        return (self.first.keys(length) + self.second.keys(length)) / 2

    def attend(self, q_BNTH: Tensor, k_BKTH: Tensor, v_BKTH: Tensor, scale: float) -> Tensor:
        """The halves, one after the other."""
        if k_BKTH.shape[1] % 2:  # heads of both halves share a key
            k_BKTH, v_BKTH = (x.repeat_interleave(q_BNTH.shape[1] // x.shape[1], dim=1) for x in (k_BKTH, v_BKTH))
        halves = zip(*(x.chunk(2, dim=1) for x in (q_BNTH, k_BKTH, v_BKTH)), strict=True)
        made = [
            way.attend(q, k, v, scale) for way, (q, k, v) in zip((self.first, self.second), halves, strict=True)
        ]
        return torch.cat(made, dim=1)


def rows(x_BNTH: Tensor, width: int) -> Tensor:
    """Blocks of so many positions, (B, N, T / width, width, H), the last one padded with zeros."""
    padded_BNTH = F.pad(x_BNTH, (0, 0, 0, -x_BNTH.shape[2] % width))
    return torch.unflatten(padded_BNTH, 2, (-1, width))


def column_positions(window: int, columns: int, length: int, device: torch.device) -> Tensor:
    """Positions of the last keys of each block, those of an unfinished one too."""
    starts_G1 = torch.arange(0, length, window, device=device)[:, None]
    return (starts_G1 + torch.arange(window - columns, window, device=device)).flatten()


def fused(q_BNTH: Tensor, k_BKSH: Tensor, v_BKSH: Tensor, scale: float, mask_TS: Tensor | None = None) -> Tensor:
    """PyTorch's kernel; without a mask causal.

    Its fast forms want values as wide as keys: the narrower ones are filled up with zeros, which changes no score
    and no sum. A single query, which would have all keys copied for few products, is left alone.
    """
    width = v_BKSH.shape[-1]
    fill = width - k_BKSH.shape[-1] if q_BNTH.shape[2] > 1 else 0
    if fill > 0:
        q_BNTH, k_BKSH = F.pad(q_BNTH, (0, fill)), F.pad(k_BKSH, (0, fill))
    elif fill < 0:
        v_BKSH = F.pad(v_BKSH, (0, -fill))
    if stacking.is_on():
        mask_TS = None if mask_TS is None else mask_TS[(None,) * (4 - mask_TS.dim())]
        y_BNTH = stacking.apply(_kernel_for_all, q_BNTH, k_BKSH, v_BKSH, scale, mask_TS)
    else:
        y_BNTH = _kernel(q_BNTH, k_BKSH, v_BKSH, scale, mask_TS)
    return y_BNTH if fill >= 0 else y_BNTH[..., :width]


def _kernel(q_BNTH: Tensor, k_BKSH: Tensor, v_BKSH: Tensor, scale: float, mask_TS: Tensor | None) -> Tensor:
    return F.scaled_dot_product_attention(
        q_BNTH,
        k_BKSH,
        v_BKSH,
        attn_mask=mask_TS,
        is_causal=mask_TS is None,
        scale=scale,
        enable_gqa=q_BNTH.shape[1] != k_BKSH.shape[1],
    )


def _kernel_for_all(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None) -> Tensor:
    """Models, the first axis, become rows of the batch; or heads, where each has a mask of its own."""
    if mask is None or mask.dim() == 4:
        rows_of_all = _kernel(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), scale, mask)
        return torch.unflatten(rows_of_all, 0, q.shape[:2])
    mask = mask.expand(-1, -1, q.shape[2], -1, -1)
    q_BNTH, k_BKSH, v_BKSH, mask_BNTS = (x.transpose(0, 1).flatten(1, 2) for x in (q, k, v, mask))
    heads_of_all = _kernel(q_BNTH, k_BKSH, v_BKSH, scale, mask_BNTS)
    return torch.unflatten(heads_of_all, 1, (len(q), -1)).transpose(0, 1)
