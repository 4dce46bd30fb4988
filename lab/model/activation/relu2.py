"""Squared ReLU, max(0, x)², not gated: arXiv:2109.08668 (Primer); Nemotron-4 has it too."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from lab.model.activation import ActivationConfig
from lab.model.feed_forward import FeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Two maps with a squared ReLU between."""

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        return FeedForward(dims.dim, self.width(dims), act=squared_relu, bias=self.bias)


def squared_relu(x_BTF: Tensor) -> Tensor:
    """max(0, x)², whose derivative 2 max(0, x) has no jump."""
    return F.relu(x_BTF).square()
