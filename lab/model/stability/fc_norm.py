"""A norm after the last projection of each branch, the FC part of QK-FC norm: arXiv:2410.16682.

With ``qk_norm`` beside it this is the paper's QK-FC norm. The norm at the input of a branch stays, so the form is
that of a sandwich of two norms.
"""

from dataclasses import dataclass

from torch import nn

from lab.component import check_number
from lab.model.layer_spec import LayerSpec
from lab.model.norm import Site
from lab.model.sizes import Dims
from lab.model.stability import Stability, StabilityConfig
from lab.model.stability._norm_kind import NormKind, build_norm


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Bounds what a branch adds to the residual stream."""

    norm: NormKind
    """``rmsnorm``, ``rmsnorm_1p``, ``rmsnorm_plain``, ``layernorm`` or ``layernorm_no_bias``."""
    eps: float
    """Added to the mean square or variance, > 0."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dims: Dims) -> Stability:
        """A norm for each branch."""
        return FCNorm(self)


class FCNorm(Stability):
    """Makes the norm of each branch."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def branch(self, spec: LayerSpec, dims: Dims, site: Site) -> nn.Module:
        """A norm of the model's width."""
        return build_norm(self.config.norm, dims.dim, eps=self.config.eps)
