"""Peri-LN, x ← x + norm(f(norm(x))) with norms on the embedding and at the end: arXiv:2502.02732.

The block is that of ``block=sandwich``, as in Gemma 2; the norm on the embedding is what is added.
"""

from dataclasses import dataclass
from typing import ClassVar

from lab.model.block import Block, BlockConfig, Parts
from lab.model.block.sandwich import SandwichBlock
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(BlockConfig):
    """Norms around each branch, after the embedding and before the head."""

    embed_norm: ClassVar[bool] = True

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        return SandwichBlock(dims, layer, parts)
