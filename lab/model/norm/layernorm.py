"""Layer normalization, g (x - mean) / sqrt(var + eps) + b, variance over D: arXiv:1607.06450, equation 4."""

from dataclasses import dataclass

from torch import nn

from lab.component import check_number
from lab.model.layers import LayerNorm
from lab.model.norm import NormConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(NormConfig):
    """LayerNorm with gain and bias."""

    eps: float
    """Added to the variance, so in units of activation squared."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """A LayerNorm with its gain at one and its bias at zero."""
        return LayerNorm(dim, eps=self.eps)
