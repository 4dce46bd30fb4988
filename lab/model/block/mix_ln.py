"""Mix-LN, post-norm in the first blocks and pre-norm in the rest, with a final norm: arXiv:2412.13795.

The blocks are those of ``block=post`` and ``block=pre``; the paper takes a quarter for post-norm.
"""

import math
from dataclasses import dataclass

from lab.component import check_number
from lab.model.block import Block, BlockConfig, Parts
from lab.model.block.post import PostBlock
from lab.model.block.pre import PreBlock
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(BlockConfig):
    """Two placements, one after the other."""

    post_share: float
    """Share of the blocks, counted from the input, that are post-norm; in (0, 1]. The number is rounded down, but
    is at least one."""

    def __post_init__(self) -> None:
        check_number("post_share", self.post_share, above=0, most=1)

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        n_post = max(1, math.floor(self.post_share * dims.n_layers + 1e-9))  # 0.29 of 100 is 29, not 28.99…
        return PostBlock(dims, layer, parts) if layer.index < n_post else PreBlock(dims, layer, parts)
