"""LayerNorm with a gain and no bias, g (x - mean) / sqrt(var + eps), variance over D: arXiv:2204.02311, section 2.

PaLM leaves out all biases; Cohere's models, MPT and DCLM have the same norm.
"""

from dataclasses import dataclass

from torch import nn

from lab.component import check_number
from lab.model.layers import LayerNormNoBias
from lab.model.norm import NormConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(NormConfig):
    """LayerNorm without a bias."""

    eps: float
    """Added to the variance, so in units of activation squared."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """A LayerNorm with its gain at one."""
        return LayerNormNoBias(dim, eps=self.eps)
