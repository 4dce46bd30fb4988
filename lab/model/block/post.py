"""Post-norm, x ← norm(x + f(x)), the form of 2017: arXiv:1706.03762, section 3.1; no final norm is added."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from lab.model.attn import Losses
from lab.model.block import Block, BlockConfig, Parts
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(BlockConfig):
    """The norm stands on the residual stream, after each addition."""

    final_norm: ClassVar[bool] = False

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        return PostBlock(dims, layer, parts)


class PostBlock(Block):
    """The residual stream is normalised after each branch."""

    def __init__(self, dims: Dims, layer: LayerSpec, parts: Parts) -> None:
        super().__init__(dims, layer, parts)
        self.attn_norm, self.ffn_norm = parts.norm("attn"), parts.norm("ffn")

    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """Attention, then feed-forward, each added to the stream and normalised."""
        y_BTD, losses = self.attn(x_BTD, cache, offset, shared)
        x_BTD = self.attn_norm(x_BTD + self.attn_end(y_BTD))
        x_BTD = self.ffn_norm(x_BTD + self.ffn_end(self.ffn(x_BTD)))
        return x_BTD, losses
