"""LayerNorm with its gain kept as 1 + w, (1 + w) (x - mean) / sqrt(var + eps) + b: arXiv:1607.06450, equation 4.

The form of Nemotron-4's code, where w starts at zero. It is ``layernorm`` but for weight decay, which would pull
the gain to one, not to zero.
"""

from dataclasses import dataclass

from torch import nn

from lab.component import check_number
from lab.model.layers import LayerNorm1p
from lab.model.norm import NormConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(NormConfig):
    """LayerNorm with a zero-centred gain and a bias."""

    eps: float
    """Added to the variance, so in units of activation squared."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """A LayerNorm with its gain at one and its bias at zero."""
        return LayerNorm1p(dim, eps=self.eps)
