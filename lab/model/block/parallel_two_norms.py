"""Parallel branches with a norm each, x ← x + attn(norm(x)) + ffn(norm'(x)): GPT-NeoX, arXiv:2204.06745.

Falcon 40B has the same; ``block=parallel`` has one norm for both.
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
    """Each branch reads the block's input through a norm of its own; a final norm."""

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        return ParallelTwoNormsBlock(dims, layer, parts)


class ParallelTwoNormsBlock(Block):
    """Attention and feed-forward side by side, normalised apart."""

    def __init__(self, dims: Dims, layer: LayerSpec, parts: Parts) -> None:
        super().__init__(dims, layer, parts)
        self.attn_norm, self.ffn_norm = parts.norm("attn"), parts.norm("ffn")

    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """Both branches at once, added to the stream."""
        y_BTD, losses = self.attn(self.attn_norm(x_BTD), cache, offset, shared)
        return x_BTD + self.attn_end(y_BTD) + self.ffn_end(self.ffn(self.ffn_norm(x_BTD))), losses
