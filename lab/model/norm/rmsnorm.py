"""Root mean square norm, g x / sqrt(mean(x²) + eps): arXiv:1910.07467, equation 4 (which has no eps)."""

from dataclasses import dataclass

from torch import nn

from lab.model.layers import RMSNorm
from lab.model.norm import EpsConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(EpsConfig):
    """RMSNorm."""

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """An RMSNorm with its gain at one."""
        return RMSNorm(dim, eps=self.eps)
