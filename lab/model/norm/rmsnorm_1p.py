"""RMSNorm with its gain kept as 1 + w, (1 + w) x / sqrt(mean(x²) + eps): arXiv:1910.07467, equation 4.

The form of Gemma's code, where w starts at zero and the product is taken in fp32. It is ``rmsnorm`` but for
weight decay, which would pull the gain to one, not to zero.
"""

from dataclasses import dataclass

from torch import nn

from lab.component import check_number
from lab.model.layers import RMSNorm1p
from lab.model.norm import NormConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(NormConfig):
    """RMSNorm with a zero-centred gain."""

    eps: float
    """Added to the mean square, so in units of activation squared."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """An RMSNorm with its gain at one."""
        return RMSNorm1p(dim, eps=self.eps)
