"""LayerNorm with its gain kept as 1 + w, (1 + w) (x - mean) / sqrt(var + eps) + b: arXiv:1607.06450, equation 4.

The form of Nemotron-4's code, where w starts at zero. It is ``layernorm`` but for weight decay, which would pull
the gain to one, not to zero.
"""

from dataclasses import dataclass

from torch import nn

from lab.model.layers import LayerNorm1p
from lab.model.norm import EpsConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(EpsConfig):
    """LayerNorm with a zero-centred gain and a bias."""

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """A LayerNorm with its gain at one and its bias at zero."""
        return LayerNorm1p(dim, eps=self.eps)
