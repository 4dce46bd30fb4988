"""A norm on what enters the first block, as BLOOM's embedding LayerNorm: arXiv:2211.05100.

BERT (arXiv:1810.04805) has it too, on the sum of token and position embeddings, which is where it stands here.
"""

from dataclasses import dataclass

from torch import Tensor

from lab.component import check_number
from lab.model.sizes import Dims
from lab.model.stability import Stability, StabilityConfig
from lab.model.stability._norm_kind import NormKind, build_norm


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Sets the size of the residual stream at its start."""

    norm: NormKind
    """``layernorm`` in both models; or ``layernorm_no_bias``, ``rmsnorm``, ``rmsnorm_1p``, ``rmsnorm_plain``."""
    eps: float
    """Added to the variance or mean square, > 0; 1e-5 in BLOOM, 1e-12 in BERT."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dims: Dims) -> Stability:
        """The norm."""
        return EmbeddingNorm(self, dims.dim)


class EmbeddingNorm(Stability):
    """Normalises the embeddings."""

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__()
        self.norm = build_norm(config.norm, dim, eps=config.eps)

    def embed(self, x_BTD: Tensor) -> Tensor:
        """Normalise each vector."""
        y_BTD: Tensor = self.norm(x_BTD)
        return y_BTD
