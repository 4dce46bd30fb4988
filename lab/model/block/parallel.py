"""Parallel branches, x ← x + attn(norm(x)) + ffn(norm(x)) with one norm: PaLM, arXiv:2204.02311, section 2.

GPT-J, Command R and Falcon 7B have the same; ``block=parallel_two_norms`` has a norm for each branch.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lab.model.attn import Losses
from lab.model.block import Block, BlockConfig, Parts
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(BlockConfig):
    """Both branches read the same normalised stream; a final norm."""

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        return ParallelBlock(dims, layer, parts)


class ParallelBlock(Block):
    """Attention and feed-forward side by side."""

    def __init__(self, dims: Dims, layer: LayerSpec, parts: Parts) -> None:
        super().__init__(dims, layer, parts)
        self.attn_norm = parts.norm("attn")  # the feed-forward's too

    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """Both branches at once, added to the stream."""
        normed_BTD = self.attn_norm(x_BTD)
        y_BTD, losses = self.attn(normed_BTD, cache, offset, shared)
        return x_BTD + self.attn_end(y_BTD) + self.ffn_end(self.ffn(normed_BTD)), losses
