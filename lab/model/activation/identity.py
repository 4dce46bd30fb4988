"""No activation: two linear maps in a row, as in the deep linear networks of arXiv:1312.6120.

The control for the others; only attention and norms are not linear then.
"""

from dataclasses import dataclass

from torch import nn

from lab.model.activation import ActivationConfig
from lab.model.feed_forward import FeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Two maps with nothing between."""

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        return FeedForward(dims.dim, self.width(dims), act=nn.Identity(), bias=self.bias)
