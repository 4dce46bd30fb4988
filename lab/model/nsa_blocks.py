"""Blocks of native sparse attention: their sizes, their compression and their choice: arXiv:2502.11089, section 3.

Blocks are numbered from 0. Beside the legend: E compression blocks, I selection blocks, Z the chosen ones of a
query, W tokens of a block.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.component import check
from lab.model.layers import Embedding, Linear

INITIAL, LOCAL = 1, 2
"""Blocks that are always chosen: at the start of the sequence, and up to the query's own."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """All in tokens, but for a count."""

    block: int
    """Of a compression block, l."""
    stride: int
    """From one compression block to the next, d."""
    select_block: int
    """Of a selection block, l'."""
    n_selected: int
    """Selection blocks that a query attends to, n, ``INITIAL`` and ``LOCAL`` ones counted."""
    window: int
    """Of the sliding window, the query's own counted."""

    def __post_init__(self) -> None:
        for key in ("block", "select_block"):
            size = getattr(self, key)
            check(size % self.stride == 0, f"attn.{key}", size, f"must be a multiple of attn.stride {self.stride}")

    def completed(self, n_tokens: int) -> int:
        """Compression blocks whose last token is among the first ``n_tokens``."""
        return max(0, (n_tokens - self.block) // self.stride + 1)

    def selectable(self, n_tokens: int) -> int:
        """Selection blocks of so many tokens, the last one maybe unfinished."""
        return math.ceil(n_tokens / self.select_block)


class BlockMap(nn.Module):
    """One vector for each completed block: an MLP of its tokens' vectors, to which their places are added.

    The paper asks for a learned map with positions inside the block, and no more; here it has one hidden layer as
    wide as a head with GELU, is shared by the heads, and each place has a learned vector.
    """

    def __init__(self, head_dim: int, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.place = Embedding(sizes.block, head_dim)
        self.up = Linear(sizes.block * head_dim, head_dim, bias=False)
        self.down = Linear(head_dim, head_dim, bias=False)

    def forward(self, x_BSKH: Tensor) -> Tensor:
        """Blocks that are complete, (B, E, K, H); the first starts at the first vector."""
        n_blocks, size, step = self.sizes.completed(x_BSKH.shape[1]), self.sizes.block, self.sizes.stride
        if not n_blocks:
            return x_BSKH[:, :0]
        x_BEKHW = x_BSKH[:, : (n_blocks - 1) * step + size].unfold(1, size, step)
        placed_BEKWH = x_BEKHW.transpose(-1, -2) + self.place.weight.to(x_BSKH.dtype)
        y_BEKH: Tensor = self.down(F.gelu(self.up(placed_BEKWH.flatten(-2))))
        return y_BEKH

    def weights(self) -> int:
        """Of the linear maps."""
        return self.up.weight.numel() + self.down.weight.numel()


def hidden_blocks(sizes: Sizes, n_blocks: int, pos_T: range, like: Tensor) -> Tensor:
    """Whether a compression block is not complete at each query's position, (T, E)."""
    last_E = torch.arange(n_blocks, device=like.device) * sizes.stride + sizes.block - 1
    return last_E > torch.arange(pos_T.start, pos_T.stop, device=like.device)[:, None]


def block_scores(weights_BKTE: Tensor, sizes: Sizes, n_blocks: int) -> Tensor:
    """Scores of selection blocks, (B, K, T, I): equation 9, sum over m < l'/d and n < l/d of p[(l'/d) j + m - n].

    The paper prints -m - n, which is for blocks numbered from 1. A compression block counts as often as it shares
    a piece of d tokens with the selection block.
    """
    wide, narrow = sizes.select_block // sizes.stride, sizes.block // sizes.stride
    padding = (narrow - 1, wide * n_blocks - weights_BKTE.shape[-1])
    weights_BKTE = F.pad(weights_BKTE, padding)
    scores_BKTI = torch.zeros_like(weights_BKTE[..., :n_blocks])
    for first in range(wide + narrow - 1):
        shared = min(first + 1, wide, narrow, wide + narrow - 1 - first)
        scores_BKTI = scores_BKTI + shared * weights_BKTE[..., first::wide][..., :n_blocks]
    return scores_BKTI


def choose(scores_BKTI: Tensor, sizes: Sizes, pos_T: range) -> tuple[Tensor, Tensor]:
    """The best blocks of each query, (B, K, T, Z), and which of these are blocks that it may see.

    A query that has fewer blocks before it than it may choose takes them all. Of equal scores the earlier block is
    taken.
    """
    n_chosen, n_blocks = min(sizes.n_selected, scores_BKTI.shape[-1]), sizes.selectable(pos_T.stop)
    scores_BKTI = scores_BKTI[..., :n_blocks]
    own_T1 = torch.arange(pos_T.start, pos_T.stop, device=scores_BKTI.device)[:, None] // sizes.select_block
    block_I = torch.arange(n_blocks, device=scores_BKTI.device)
    kept_TI = (block_I < INITIAL) | (block_I > own_T1 - LOCAL)
    scores_BKTI = scores_BKTI.masked_fill(kept_TI, math.inf).masked_fill(block_I > own_T1, -math.inf)
    best_BKTI, chosen_BKTI = scores_BKTI.sort(dim=-1, descending=True, stable=True)
    missing = (0, max(n_chosen - n_blocks, 0))
    seen_BKTZ = F.pad(best_BKTI[..., :n_chosen] > -math.inf, missing)
    return F.pad(chosen_BKTI[..., :n_chosen], missing), seen_BKTZ


def hidden_tokens(chosen_BKTZ: Tensor, seen_BKTZ: Tensor, sizes: Sizes, pos_T: range, n_tokens: int) -> Tensor:
    """Whether a token is after its query or in no chosen block, (B, K, T, S)."""
    n_blocks = sizes.selectable(n_tokens)
    taken_BKTI = torch.zeros(*chosen_BKTZ.shape[:-1], n_blocks, device=chosen_BKTZ.device)
    taken_BKTI = taken_BKTI.scatter_add(-1, chosen_BKTZ, seen_BKTZ.to(taken_BKTI.dtype))
    taken_BKTS = (taken_BKTI > 0).repeat_interleave(sizes.select_block, dim=-1)[..., :n_tokens]
    t_T1 = torch.arange(pos_T.start, pos_T.stop, device=chosen_BKTZ.device)[:, None]
    return ~taken_BKTS | (torch.arange(n_tokens, device=chosen_BKTZ.device) > t_T1)
