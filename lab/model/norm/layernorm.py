"""Layer normalization, g (x - mean) / sqrt(var + eps) + b, variance over D: arXiv:1607.06450, equation 4."""

from dataclasses import dataclass

from torch import nn

from lab.model.layers import LayerNorm
from lab.model.norm import EpsConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(EpsConfig):
    """LayerNorm with gain and bias."""

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """A LayerNorm with its gain at one and its bias at zero."""
        return LayerNorm(dim, eps=self.eps)
