"""Softplus, ln(1 + exp(x)), one of the activations compared in arXiv:2102.11972.

PyTorch's gives x itself above 20, where the two differ by less than fp32 resolves.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import nn

from lab.model.activation import ActivationConfig
from lab.model.feed_forward import FeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Two maps with a softplus between; every hidden unit is ln 2 at zero."""

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        return FeedForward(dims.dim, self.width(dims), act=F.softplus, bias=self.bias)
