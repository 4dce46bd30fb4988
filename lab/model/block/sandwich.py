"""Sandwich norm, x ← x + norm(f(norm(x))) and a final norm: CogView, arXiv:2105.13290, and Gemma 2.

Four norms a block, those at the input of a branch as in ``block=pre``; the Gemma 2 report (arXiv:2408.00118,
section 2) and Grok-1's code have the same.
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
    """A norm at the input of each branch and one at its output."""

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        return SandwichBlock(dims, layer, parts)


class SandwichBlock(Block):
    """What a branch reads is normalised, and what it adds."""

    def __init__(self, dims: Dims, layer: LayerSpec, parts: Parts) -> None:
        super().__init__(dims, layer, parts)
        self.attn_norm, self.ffn_norm = parts.norm("attn"), parts.norm("ffn")
        self.attn_out_norm, self.ffn_out_norm = parts.norm("attn"), parts.norm("ffn")

    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """Attention, then feed-forward, each normalised and added to the stream."""
        y_BTD, losses = self.attn(self.attn_norm(x_BTD), cache, offset, shared)
        x_BTD = x_BTD + self.attn_end(self.attn_out_norm(y_BTD))
        y_BTD = self.ffn_out_norm(self.ffn(self.ffn_norm(x_BTD)))
        return x_BTD + self.ffn_end(y_BTD), losses
