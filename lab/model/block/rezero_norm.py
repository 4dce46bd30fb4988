"""ReZero with norms, x ← x + a f(norm(x)), a starting at zero, and a final norm: arXiv:2102.11972.

ReZero itself (arXiv:2003.04887, ``block=rezero``) has no norm; Narang et al. test it with one as well.
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
    """Pre-norm with a scalar in front of each branch."""

    passes_zero: ClassVar[bool] = False

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        return ReZeroNormBlock(dims, layer, parts)


class ReZeroNormBlock(Block):
    """The block is the identity at first; branches read the normalised stream."""

    def __init__(self, dims: Dims, layer: LayerSpec, parts: Parts) -> None:
        super().__init__(dims, layer, parts)
        self.attn_norm, self.ffn_norm = parts.norm("attn"), parts.norm("ffn")
        self.attn_scale, self.ffn_scale = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))

    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """Attention, then feed-forward, each scaled and added to the stream."""
        y_BTD, losses = self.attn(self.attn_norm(x_BTD), cache, offset, shared)
        x_BTD = x_BTD + self.attn_scale * self.attn_end(y_BTD)
        return x_BTD + self.ffn_scale * self.ffn_end(self.ffn(self.ffn_norm(x_BTD))), losses
