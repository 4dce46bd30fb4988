"""Fixup's block, x ← x + a f(x + b) + c with scalars a, b and c of each branch: arXiv:1901.09321, section 3.

Its rule 3 puts a scalar bias before every linear layer and every activation, and a scalar multiplier at
the end of a branch. Here a branch is one module, so it has a bias at its input and one at its end; those between
its matrices are the activation's and the attention's own, as ``activation.bias`` and ``attn.q_bias``, and start
at zero like them. The paper has ``norm=none``; another norm of the group stands at the input of each branch and
before the head, as in ``block=pre``. ``init=fixup`` is rules 1 and 2 and brings this block and ``norm=none``.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lab.model.attn import Losses
from lab.model.block import Block, BlockConfig, Parts
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(BlockConfig):
    """Scalars that do what a norm's gain and bias would."""

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        return FixupBlock(dims, layer, parts)


class Scalars(nn.Module):
    """The three scalars of a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.bias_in = nn.Parameter(torch.zeros(1))
        self.bias_out = nn.Parameter(torch.zeros(1))

    def forward(self, y_BTD: Tensor) -> Tensor:
        """What is added to the stream, given the branch's output."""
        return self.scale * y_BTD + self.bias_out


class FixupBlock(Block):
    """Branches with a multiplier and two biases each."""

    def __init__(self, dims: Dims, layer: LayerSpec, parts: Parts) -> None:
        super().__init__(dims, layer, parts)
        self.attn_norm, self.ffn_norm = parts.norm("attn"), parts.norm("ffn")
        self.attn_scalars, self.ffn_scalars = Scalars(), Scalars()

    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """Attention, then feed-forward, each added to the stream."""
        y_BTD, losses = self.attn(self.attn_norm(x_BTD) + self.attn_scalars.bias_in, cache, offset, shared)
        x_BTD = x_BTD + self.attn_scalars(self.attn_end(y_BTD))
        y_BTD = self.ffn(self.ffn_norm(x_BTD) + self.ffn_scalars.bias_in)
        return x_BTD + self.ffn_scalars(self.ffn_end(y_BTD)), losses
