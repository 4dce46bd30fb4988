"""Hyperbolic tangent; arXiv:1612.08083 sets it against gates."""

from dataclasses import dataclass

import torch
from torch import nn

from lab.model.activation import ActivationConfig
from lab.model.feed_forward import FeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Two maps with a tanh between."""

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        return FeedForward(dims.dim, self.width(dims), act=torch.tanh, bias=self.bias)
