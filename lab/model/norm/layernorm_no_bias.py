"""LayerNorm with a gain and no bias, g (x - mean) / sqrt(var + eps), variance over D: arXiv:2204.02311, section 2.

PaLM leaves out all biases; Cohere's models, MPT and DCLM have the same norm.
"""

from dataclasses import dataclass

from torch import nn

from lab.model.layers import LayerNormNoBias
from lab.model.norm import EpsConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(EpsConfig):
    """LayerNorm without a bias."""

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """A LayerNorm with its gain at one."""
        return LayerNormNoBias(dim, eps=self.eps)
