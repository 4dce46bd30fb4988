"""Attention of each query to its own few blocks of keys, and to a window, without the keys that it does not see.

Pairs of a query and a chosen block are sorted by block and cut into tiles of queries that share one, so that keys
are read once a tile and not once a query. Each pair has a softmax of its own; they are joined by their logsumexp,
and computed again in the backward pass, as in FlashAttention-2 (arXiv:2307.08691, section 3.1). Heads that read
keys stand in one line with the batch, A. The number of tiles depends on nothing but sizes. Beside the letters of
``lab.model.nsa_blocks``: U tiles, Y rows of all tiles, O pairs.
"""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

WINDOW_QUERIES = 128
"""Queries that are given one slice of the keys, or a quarter of the window if that is more."""

SCORES_AT_ONCE = 1 << 19
"""Scores of tiles that are held at a time, about."""


@dataclass(frozen=True)
class Tiles:
    """Which query stands in which row, and which block its tile has. Heads of a batch are counted through.

    First come, for each block, the queries that are in it, one after another; they alone see only a part of it.
    """

    query_Y: Tensor
    """Query of a row."""
    unused_Y: Tensor
    """Whether a row is padding, or stands for a block too few."""
    row_O: Tensor
    """Row of a pair, pairs in the order of (A, T, Z)."""
    block_U: Tensor
    """Block of a tile."""


def tiles(chosen_ATZ: Tensor, seen_ATZ: Tensor, pos_T: range, *, n_blocks: int, size: int) -> Tiles:
    """Sort pairs by block, and give each block as many tiles of ``size`` rows as it needs."""
    heads, length, n_chosen = chosen_ATZ.shape
    n_pairs, device = length * n_chosen, chosen_ATZ.device
    n_tiles = (n_pairs - length) // size + min(n_blocks, n_pairs)  # of others; enough however the pairs fall
    head_A1 = torch.arange(heads, device=device)[:, None]
    t_T1 = torch.arange(pos_T.start, pos_T.stop, device=device)[:, None]
    own_AO = ((chosen_ATZ == t_T1 // size) & seen_ATZ).flatten(1)
    block_AO = chosen_ATZ.masked_fill(~seen_ATZ, 0).flatten(1).masked_fill(own_AO, n_blocks)
    sorted_AO, order_AO = block_AO.sort(dim=-1, stable=True)
    count_AI = torch.zeros(heads, n_blocks + 1, dtype=torch.long, device=device)
    count_AI = count_AI.scatter_add(1, block_AO, torch.ones_like(block_AO))
    tiles_AI = (count_AI + size - 1) // size
    end_AI = tiles_AI.cumsum(dim=-1)
    start_AI = (end_AI - tiles_AI) * size - (count_AI.cumsum(dim=-1) - count_AI)
    row_AO = start_AI.gather(1, sorted_AO) + torch.arange(n_pairs, device=device)
    row_AO = torch.zeros_like(row_AO).scatter(1, order_AO, row_AO) + (heads * n_blocks + head_A1 * n_tiles) * size
    own_row_AO = t_T1.expand(-1, n_chosen).flatten() + head_A1 * (n_blocks * size)
    row_O = torch.where(own_AO, own_row_AO, row_AO).flatten()
    pair_Y = torch.full((heads * (n_blocks + n_tiles) * size,), -1, device=device)
    pair_Y = pair_Y.scatter(0, row_O, torch.arange(heads * n_pairs, device=device))
    tile_AU = torch.arange(n_tiles, device=device).repeat(heads, 1)
    block_AU = torch.searchsorted(end_AI[:, :-1].contiguous(), tile_AU, right=True).clamp(max=n_blocks - 1)
    own_U = torch.arange(heads * n_blocks, device=device)
    padding_Y, pair_Y = pair_Y < 0, pair_Y.clamp(min=0)
    return Tiles(
        query_Y=pair_Y // n_chosen,
        unused_Y=padding_Y | ~seen_ATZ.flatten()[pair_Y],
        row_O=row_O,
        block_U=torch.cat((own_U, (block_AU + head_A1 * n_blocks).flatten())),
    )


def chosen_attention(
    q_ATGH: Tensor,
    k_ASH: Tensor,
    v_ASH: Tensor,
    chosen: tuple[Tensor, Tensor],
    pos_T: range,
    size: int,
    scale: float,
) -> Tensor:
    """Softmax over the tokens of the chosen blocks of ``size`` that are not after the query, (A, T, G, H).

    ``chosen`` are the blocks, (A, T, Z), and which of them count, one at least; keys start at position 0.
    """
    n_blocks = math.ceil(k_ASH.shape[1] / size)
    padding = (0, 0, 0, n_blocks * size - k_ASH.shape[1])
    k_IWH, v_IWH = (
        torch.unflatten(F.pad(x.to(q_ATGH.dtype), padding), 1, (n_blocks, size)).flatten(0, 1)
        for x in (k_ASH, v_ASH)
    )
    made = tiles(*chosen, pos_T, n_blocks=n_blocks, size=size)
    q_MGH = (q_ATGH * scale).flatten(0, 1)
    if torch.compiler.is_compiling():  # it differentiates and fuses by itself
        y_MGH = _joined(q_MGH, k_IWH, v_IWH, made)[0]
    else:
        y_MGH = _Chosen.apply(q_MGH, k_IWH, v_IWH, *(getattr(made, f.name) for f in dataclasses.fields(made)))  # type: ignore[no-untyped-call]
    return y_MGH.view_as(q_ATGH)


def _joined(q_MGH: Tensor, k_IWH: Tensor, v_IWH: Tensor, made: Tiles) -> tuple[Tensor, Tensor]:
    """Sums of values, and the logsumexp of each query's scores."""
    n_queries, groups, width = q_MGH.shape
    y_YGH = q_MGH.new_empty(made.query_Y.shape[0], groups, width)
    lse_YG = torch.empty_like(y_YGH[..., 0], dtype=torch.promote_types(q_MGH.dtype, torch.float32))
    for part in _parts(made, q_MGH, k_IWH):
        scores_URW = part.scores(q_MGH, k_IWH)
        top_UR1 = scores_URW.detach().amax(dim=-1, keepdim=True)
        weights_URW = scores_URW.sub_(top_UR1).exp_()
        sum_UR1 = weights_URW.sum(dim=-1, keepdim=True)
        sums_URH = torch.bmm(weights_URW.to(v_IWH.dtype), v_IWH.index_select(0, part.block_U))
        y_YGH[part.of_Y] = (sums_URH / sum_UR1).view(-1, groups, width).to(y_YGH.dtype)
        lse_YG[part.of_Y] = (top_UR1 + sum_UR1.log()).view(-1, groups)
    lse_YG = lse_YG.masked_fill(made.unused_Y[:, None], -math.inf)
    lse_MZG = lse_YG.index_select(0, made.row_O).view(n_queries, -1, groups)
    lse_MG = lse_MZG.logsumexp(dim=1)
    share_MZG = (lse_MZG - lse_MG[:, None]).exp().to(y_YGH.dtype)
    y_MZGH = y_YGH.index_select(0, made.row_O).view(n_queries, -1, groups, width)
    return (y_MZGH * share_MZG[..., None]).sum(dim=1), lse_MG


class _Chosen(torch.autograd.Function):
    """With P = exp(S - L): dV = Pᵀ dO, dS = P (dO Vᵀ - sum(dO O)), dQ = dS K, dK = dSᵀ Q; the scale is in Q."""

    @staticmethod
    def forward(ctx: Any, q_MGH: Tensor, k_IWH: Tensor, v_IWH: Tensor, *fields: Tensor) -> Tensor:
        y_MGH, lse_MG = _joined(q_MGH, k_IWH, v_IWH, Tiles(*fields))
        ctx.save_for_backward(q_MGH, k_IWH, v_IWH, y_MGH, lse_MG, *fields)
        return y_MGH

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q_MGH, k_IWH, v_IWH, y_MGH, lse_MG, *fields = ctx.saved_tensors
        made, dy_MGH = Tiles(*fields), grads[0].to(q_MGH.dtype)
        inner_MG1 = (dy_MGH * y_MGH).sum(dim=-1, keepdim=True).to(lse_MG.dtype)
        dk_IWH, dv_IWH = (torch.zeros_like(x, dtype=lse_MG.dtype) for x in (k_IWH, v_IWH))
        dq_YGH = q_MGH.new_empty(made.query_Y.shape[0], *q_MGH.shape[1:])
        for part in _parts(made, q_MGH, k_IWH):
            lse_YG1 = lse_MG.index_select(0, part.query_Y).masked_fill_(part.unused_Y[:, None], math.inf)[..., None]
            weights_URW = part.scores(q_MGH, k_IWH).sub_(part.by_tile(lse_YG1)).exp_()
            dy_URH = part.of_rows(dy_MGH)
            dscores_URW = torch.bmm(dy_URH, v_IWH.index_select(0, part.block_U).mT).to(weights_URW.dtype)
            dscores_URW = dscores_URW.sub_(part.of_rows(inner_MG1)).mul_(weights_URW).to(q_MGH.dtype)
            dv_UWH = torch.bmm(weights_URW.to(dy_URH.dtype).mT, dy_URH)
            dk_UWH = torch.bmm(dscores_URW.mT, part.of_rows(q_MGH))
            dv_IWH.index_add_(0, part.block_U, dv_UWH.to(dv_IWH.dtype))
            dk_IWH.index_add_(0, part.block_U, dk_UWH.to(dk_IWH.dtype))
            dq_URH = torch.bmm(dscores_URW, k_IWH.index_select(0, part.block_U))
            dq_YGH[part.of_Y] = dq_URH.view(-1, *q_MGH.shape[1:]).to(q_MGH.dtype)
        dq_MZGH = dq_YGH.index_select(0, made.row_O).view(q_MGH.shape[0], -1, *q_MGH.shape[1:])
        return dq_MZGH.sum(dim=1), dk_IWH.to(k_IWH.dtype), dv_IWH.to(v_IWH.dtype), *(None for _ in fields)


class _Part:
    """Some of the tiles."""

    def __init__(self, made: Tiles, first: int, stop: int, *, size: int, own: bool) -> None:
        self.block_U, self.of_Y, self.own = made.block_U[first:stop], slice(first * size, stop * size), own
        self.query_Y, self.unused_Y = made.query_Y[self.of_Y], made.unused_Y[self.of_Y]

    def by_tile(self, x_YGH: Tensor) -> Tensor:
        """From a line of rows to rows by tile, (U, R, H)."""
        return x_YGH.reshape(self.block_U.shape[0], -1, x_YGH.shape[-1])

    def of_rows(self, x_MGH: Tensor) -> Tensor:
        """What belongs to the query of each row, by tile."""
        return self.by_tile(x_MGH.index_select(0, self.query_Y))

    def scores(self, q_MGH: Tensor, k_IWH: Tensor) -> Tensor:
        """Products, minus infinity where a key is after its query, (U, R, W) in fp32 at least."""
        groups, size = q_MGH.shape[1], k_IWH.shape[1]
        scores_URW = torch.bmm(self.of_rows(q_MGH), k_IWH.index_select(0, self.block_U).mT)
        scores_URW = scores_URW.to(torch.promote_types(q_MGH.dtype, torch.float32))
        if not self.own:
            return scores_URW
        after_WW = torch.ones(size, size, dtype=torch.bool, device=q_MGH.device).triu(diagonal=1)
        by_group = scores_URW.view(-1, size, groups, size).masked_fill_(after_WW[:, None], -math.inf)
        return by_group.view_as(scores_URW)


def _parts(made: Tiles, q_MGH: Tensor, k_IWH: Tensor) -> Iterator[_Part]:
    """All tiles, so many at a time that their scores stay small."""
    n_own, n_tiles, size = k_IWH.shape[0], made.block_U.shape[0], k_IWH.shape[1]
    step = max(1, SCORES_AT_ONCE // (size * q_MGH.shape[1] * size))
    for begin, end in ((0, n_own), (n_own, n_tiles)):
        for first in range(begin, end, step):
            yield _Part(made, first, min(first + step, end), size=size, own=begin == 0)


def window_attention(
    q_BTNH: Tensor, k_BSKH: Tensor, v_BSKH: Tensor, pos_T: range, pos_S: range, window: int, scale: float
) -> Tensor:
    """Softmax over the latest ``window`` tokens: for each few queries a slice of the keys."""
    batch, length, n_heads, _ = q_BTNH.shape
    rows = min(max(window // 4, WINDOW_QUERIES), length)
    n_slices = math.ceil(length / rows)
    size = rows + window - 1
    before = pos_S.start - (pos_T.start - window + 1)  # keys that are missing at the start; below 0: too many
    spare = n_slices * rows - length
    q_BTNH = F.pad(q_BTNH, (0, 0, 0, 0, 0, spare))
    q_ANTH = torch.unflatten(q_BTNH, 1, (n_slices, rows)).flatten(0, 1).transpose(1, 2)
    k_AKSH, v_AKSH = (
        F.pad(x, (0, 0, 0, 0, before, spare)).unfold(1, size, rows).flatten(0, 1).transpose(-1, -2)
        for x in (k_BSKH, v_BSKH)
    )
    first_A11 = torch.arange(n_slices, device=q_BTNH.device)[:, None, None] * rows
    back_TS = (
        torch.arange(rows, device=q_BTNH.device)[:, None] + window - 1 - torch.arange(size, device=q_BTNH.device)
    )
    there_A1S = first_A11 + torch.arange(size, device=q_BTNH.device) >= before
    seen_ATS = (back_TS >= 0) & (back_TS < window) & there_A1S
    y_ANTH = F.scaled_dot_product_attention(
        q_ANTH,
        k_AKSH,
        v_AKSH,
        attn_mask=seen_ATS.repeat(batch, 1, 1)[:, None],
        scale=scale,
        enable_gqa=n_heads != k_BSKH.shape[2],
    )
    return torch.unflatten(y_ANTH.transpose(1, 2), 0, (batch, n_slices)).flatten(1, 2)[:, :length]
