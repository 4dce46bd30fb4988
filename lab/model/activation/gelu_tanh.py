"""GELU by its tanh approximation, x/2 (1 + tanh(sqrt(2/π) (x + 0.044715 x³))): arXiv:1606.08415, section 2.

The form of GPT-1, GPT-2, BLOOM and GPT-J; it differs from ``gelu`` by at most about 5e-4.
"""

from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import nn

from lab.model.activation import ActivationConfig
from lab.model.feed_forward import FeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Two maps with an approximate GELU between."""

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        return FeedForward(dims.dim, self.width(dims), act=partial(F.gelu, approximate="tanh"), bias=self.bias)
