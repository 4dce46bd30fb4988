"""DeepNorm, x ← norm(α x + f(x)) with α = (2L)^(1/4), for decoders: DeepNet, arXiv:2203.00555, figure 2.

L is the number of blocks, of two branches each. The initial weights of the feed-forward, of the values and of the
attention's output are divided by (8L)^(1/4), whatever ``init`` draws them; queries and keys are left alone. The
paper draws them by Xavier's rule (``init=xavier``). As in ``block=post`` there is no final norm.
"""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from lab.model.attn import Losses
from lab.model.block import Block, BlockConfig, Parts
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims

SMALL = re.compile(r"blocks\.\d+\.(ffn\..+|attn\.(v|v_up|out))\.weight")
"""Names of the weights that start smaller."""


@dataclass(frozen=True, kw_only=True)
class Config(BlockConfig):
    """Post-norm in which the stream outweighs the branch, the more the deeper the model."""

    final_norm: ClassVar[bool] = False

    def init_gain(self, name: str, dims: Dims) -> float:
        """(8L)^(-1/4) for the weights that the values of a branch pass through."""
        return (8 * dims.n_layers) ** -0.25 if SMALL.fullmatch(name) else 1.0

    def build(self, dims: Dims, layer: LayerSpec, parts: Parts) -> Block:
        """One layer."""
        return DeepNormBlock(dims, layer, parts)


class DeepNormBlock(Block):
    """The residual stream is scaled up at each addition and normalised after it."""

    def __init__(self, dims: Dims, layer: LayerSpec, parts: Parts) -> None:
        super().__init__(dims, layer, parts)
        self.attn_norm, self.ffn_norm = parts.norm("attn"), parts.norm("ffn")
        self.alpha = (2 * dims.n_layers) ** 0.25

    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """Attention, then feed-forward, each added to the scaled stream and normalised."""
        y_BTD, losses = self.attn(x_BTD, cache, offset, shared)
        x_BTD = self.attn_norm(self.alpha * x_BTD + self.attn_end(y_BTD))
        x_BTD = self.ffn_norm(self.alpha * x_BTD + self.ffn_end(self.ffn(x_BTD)))
        return x_BTD, losses
