"""Logistic function 1 / (1 + exp(-x)), one of the activations compared in arXiv:2102.11972."""

from dataclasses import dataclass

import torch
from torch import nn

from lab.model.activation import ActivationConfig
from lab.model.feed_forward import FeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Two maps with a logistic function between; every hidden unit is one half at zero."""

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        return FeedForward(dims.dim, self.width(dims), act=torch.sigmoid, bias=self.bias)
