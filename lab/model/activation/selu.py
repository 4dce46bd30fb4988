"""Scaled exponential linear unit, an ELU of alpha 1.6733 times 1.0507: arXiv:1706.02515, equation 2.

The two numbers keep mean 0 and variance 1 under weights of variance 1 / fan-in, which other inits do not give.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import nn

from lab.model.activation import ActivationConfig
from lab.model.feed_forward import FeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Two maps with a SELU between."""

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        return FeedForward(dims.dim, self.width(dims), act=F.selu, bias=self.bias)
