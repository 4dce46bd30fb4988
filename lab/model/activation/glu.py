"""GLU, (σ(x W) * x V) W2: arXiv:2002.05202, equation 6, after arXiv:1612.08083."""

from dataclasses import dataclass

import torch
from torch import nn

from lab.model.activation import ActivationConfig
from lab.model.feed_forward import GatedFeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Three maps; the gate passes through the logistic function."""

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        return GatedFeedForward(dims.dim, self.width(dims), act=torch.sigmoid, bias=self.bias)
