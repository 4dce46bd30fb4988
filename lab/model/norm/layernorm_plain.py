"""LayerNorm with nothing to learn, (x - mean) / sqrt(var + eps), variance over D: arXiv:2402.00838, section 2.1.

The norm of OLMo 1; its successor OLMo 2 has ``rmsnorm``.
"""

from dataclasses import dataclass

from torch import nn

from lab.component import check_number
from lab.model.layers import LayerNormPlain
from lab.model.norm import NormConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(NormConfig):
    """LayerNorm with neither gain nor bias."""

    eps: float
    """Added to the variance, so in units of activation squared."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """A LayerNorm without parameters."""
        return LayerNormPlain(dim, eps=self.eps)
