"""RMSNorm with its gain kept as 1 + w, (1 + w) x / sqrt(mean(x²) + eps): arXiv:1910.07467, equation 4.

The form of Gemma's code, where w starts at zero and the product is taken in fp32. It is ``rmsnorm`` but for
weight decay, which would pull the gain to one, not to zero.
"""

from dataclasses import dataclass

from torch import nn

from lab.model.layers import RMSNorm1p
from lab.model.norm import EpsConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(EpsConfig):
    """RMSNorm with a zero-centred gain."""

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """An RMSNorm with its gain at one."""
        return RMSNorm1p(dim, eps=self.eps)
