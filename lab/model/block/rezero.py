"""ReZero, x ← x + a f(x) with a scalar a of each branch that starts at zero: arXiv:2003.04887.

There is no norm, neither in the block nor at the end, so the ``norm`` group has nothing to act on here.
``block=rezero_norm`` keeps the norms of ``block=pre``.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lab.model.attn import Losses
from lab.model.block import Block, BlockConfig, Parts
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(BlockConfig):
    """A scalar in front of each branch does what a norm would."""

    final_norm: ClassVar[bool] = False
    passes_zero: ClassVar[bool] = False

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        return ReZeroBlock(dims, layer, parts)


class ReZeroBlock(Block):
    """The block is the identity at first."""

    def __init__(self, dims: Dims, layer: LayerSpec, parts: Parts) -> None:
        super().__init__(dims, layer, parts)
        self.attn_scale, self.ffn_scale = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))

    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """Attention, then feed-forward, each scaled and added to the stream."""
        y_BTD, losses = self.attn(x_BTD, cache, offset, shared)
        x_BTD = x_BTD + self.attn_scale * self.attn_end(y_BTD)
        return x_BTD + self.ffn_scale * self.ffn_end(self.ffn(x_BTD)), losses
