"""Soft temperature, attention scores times a constant beta before the softmax: arXiv:2410.16682.

Applied to the scaled scores with the positions' bias, and after ``attn_softcap``. Scores that are changed rule out
the fused kernel.
"""

from dataclasses import dataclass

from torch import Tensor

from lab.component import check_number
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims
from lab.model.stability import AttentionStability, Stability, StabilityConfig


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Flattens the attention weights."""

    beta: float
    """Factor of the scores, > 0; 0.5 in the paper."""

    def __post_init__(self) -> None:
        check_number("beta", self.beta, above=0)

    def build(self, dims: Dims) -> Stability:
        """A factor in every layer."""
        return SoftmaxTemperature(self.beta)


class SoftmaxTemperature(Stability):
    """Makes the factor of each layer."""

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def attention(self, spec: LayerSpec, dims: Dims, n_kv_heads: int) -> AttentionStability:
        """The same for all."""
        return ScoreFactor(self.beta)


class ScoreFactor(AttentionStability):
    """Scales the scores."""

    changes_scores = True

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def scores(self, scores_BNTS: Tensor) -> Tensor:
        """Multiply them."""
        return self.beta * scores_BNTS
