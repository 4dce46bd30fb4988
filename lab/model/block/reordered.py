"""Reordered norm, x ← x + norm(f(x)) and a final norm: OLMo 2, arXiv:2501.00656, section 3.3.2.

Swin v2 (arXiv:2111.09883) has it too. Section 2.1 of the OLMo 2 report prints the feed-forward of the block's
input; section 3.3.2 and the released code, and this file, have it read the stream after attention.
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
    """The norm stands at the output of each branch, before the addition."""

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        return ReorderedBlock(dims, layer, parts)


class ReorderedBlock(Block):
    """A branch reads the stream as it is; what it adds is normalised."""

    def __init__(self, dims: Dims, layer: LayerSpec, parts: Parts) -> None:
        super().__init__(dims, layer, parts)
        self.attn_out_norm, self.ffn_out_norm = parts.norm("attn"), parts.norm("ffn")

    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """Attention, then feed-forward, each normalised and added to the stream."""
        y_BTD, losses = self.attn(x_BTD, cache, offset, shared)
        x_BTD = x_BTD + self.attn_end(self.attn_out_norm(y_BTD))
        return x_BTD + self.ffn_end(self.ffn_out_norm(self.ffn(x_BTD))), losses
