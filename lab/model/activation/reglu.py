"""ReGLU, (max(0, x W) * x V) W2: arXiv:2002.05202, equation 6."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import nn

from lab.model.activation import ActivationConfig
from lab.model.feed_forward import GatedFeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Three maps; the gate passes through a ReLU."""

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        return GatedFeedForward(dims.dim, self.width(dims), act=F.relu, bias=self.bias)
