"""Soft-capped attention scores, cap × tanh(scores / cap): arXiv:2408.00118, section 2.

Applied to the scaled scores with the positions' bias, before the mask, as in Gemma 2's code: after the mask a
hidden key would come back with -cap. Scores that are changed rule out the fused kernel.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from lab.component import check_number
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims
from lab.model.stability import AttentionStability, Stability, StabilityConfig


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Bounds attention scores smoothly."""

    cap: float
    """Largest absolute score, > 0; 50 in Gemma 2, 30 in Grok-1."""

    def __post_init__(self) -> None:
        check_number("cap", self.cap, above=0)

    def build(self, dims: Dims) -> Stability:
        """A cap in every layer."""
        return AttnSoftcap(self.cap)


class AttnSoftcap(Stability):
    """Makes the cap of each layer."""

    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def attention(self, spec: LayerSpec, dims: Dims, n_kv_heads: int) -> AttentionStability:
        """The same for all."""
        return ScoreCap(self.cap)


class ScoreCap(AttentionStability):
    """Caps the scores."""

    changes_scores = True

    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def scores(self, scores_BNTS: Tensor) -> Tensor:
        """Squash them."""
        return self.cap * torch.tanh(scores_BNTS / self.cap)
