"""LayerNorm with nothing to learn, (x - mean) / sqrt(var + eps), variance over D: arXiv:2402.00838, section 2.1.

The norm of OLMo 1; its successor OLMo 2 has ``rmsnorm``.
"""

from dataclasses import dataclass

from torch import nn

from lab.model.layers import LayerNormPlain
from lab.model.norm import EpsConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(EpsConfig):
    """LayerNorm with neither gain nor bias."""

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """A LayerNorm without parameters."""
        return LayerNormPlain(dim, eps=self.eps)
