"""Pre-norm, x ← x + f(norm(x)), with a final norm: arXiv:2002.04745, figure 1 (b)."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lab.model.attn import Losses
from lab.model.block import Block, BlockConfig, Parts
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(BlockConfig):
    """The norm stands at the input of each branch."""

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        return PreBlock(dims, layer, parts)


class PreBlock(Block):
    """The residual stream itself is never normalised."""

    def __init__(self, dims: Dims, layer: LayerSpec, parts: Parts) -> None:
        super().__init__(dims, layer, parts)
        self.attn_norm, self.ffn_norm = parts.norm("attn"), parts.norm("ffn")

    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """Attention, then feed-forward, each added to the stream."""
        y_BTD, losses = self.attn(self.attn_norm(x_BTD), cache, offset, shared)
        x_BTD = x_BTD + self.attn_end(y_BTD)
        x_BTD = x_BTD + self.ffn_end(self.ffn(self.ffn_norm(x_BTD)))
        return x_BTD, losses
