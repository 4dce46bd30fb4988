"""Root mean square norm, g x / sqrt(mean(x²) + eps): arXiv:1910.07467, equation 4 (which has no eps)."""

from dataclasses import dataclass

from torch import nn

from lab.component import check_number
from lab.model.layers import RMSNorm
from lab.model.norm import NormConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(NormConfig):
    """RMSNorm."""

    eps: float
    """Added to the mean square, so in units of activation squared."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """An RMSNorm with its gain at one."""
        return RMSNorm(dim, eps=self.eps)
