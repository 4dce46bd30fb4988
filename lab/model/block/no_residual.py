"""No residual stream, x ← f(norm(x)), and a final norm: the network without skips of arXiv:2103.03404.

That paper, and arXiv:2302.10322, study why it hardly trains: attention alone makes all tokens alike. The
placement of the norm is that of ``block=pre``, so that only the addition is missing.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from lab.model.attn import Losses
from lab.model.block import Block, BlockConfig, Parts
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(BlockConfig):
    """A branch replaces the stream instead of adding to it."""

    passes_zero: ClassVar[bool] = False

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        return NoResidualBlock(dims, layer, parts)


class NoResidualBlock(Block):
    """Attention and feed-forward in a row."""

    def __init__(self, dims: Dims, layer: LayerSpec, parts: Parts) -> None:
        super().__init__(dims, layer, parts)
        self.attn_norm, self.ffn_norm = parts.norm("attn"), parts.norm("ffn")

    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """Attention of the stream, then feed-forward of that."""
        y_BTD, losses = self.attn(self.attn_norm(x_BTD), cache, offset, shared)
        y_BTD = self.attn_end(y_BTD).to(x_BTD.dtype)  # stays as wide as a sum would
        return self.ffn_end(self.ffn(self.ffn_norm(y_BTD))).to(x_BTD.dtype), losses
