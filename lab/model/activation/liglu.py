"""LiGLU, the bilinear layer (x W * x V) W2: arXiv:2002.05202, equation 6, where it is called Bilinear.

The name is that of arXiv:2102.11972. The two halves play the same part.
"""

from dataclasses import dataclass

from torch import nn

from lab.model.activation import ActivationConfig
from lab.model.feed_forward import GatedFeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Three maps; the gate passes through nothing."""

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        return GatedFeedForward(dims.dim, self.width(dims), act=nn.Identity(), bias=self.bias)
