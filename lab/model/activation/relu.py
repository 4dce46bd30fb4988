"""Rectified linear unit, max(0, x): arXiv:1706.03762, equation 2."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import nn

from lab.model.activation import ActivationConfig
from lab.model.feed_forward import FeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Two maps with a ReLU between."""

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        return FeedForward(dims.dim, self.width(dims), act=F.relu, bias=self.bias)
