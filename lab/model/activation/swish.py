"""Swish, x σ(beta x), with a fixed beta; beta 1 is SiLU: arXiv:1710.05941, which also lets beta be learned."""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.component import check_number
from lab.model.activation import ActivationConfig
from lab.model.feed_forward import FeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Two maps with a Swish between."""

    beta: float
    """Sharpness; 0 gives x/2, and a large one nears ReLU."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("beta", self.beta, least=0)

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        act = F.silu if self.beta == 1 else partial(swish, beta=self.beta)  # one operation where there is one
        return FeedForward(dims.dim, self.width(dims), act=act, bias=self.bias)


def swish(x_BTF: Tensor, *, beta: float) -> Tensor:
    """X σ(beta x)."""
    return x_BTF * torch.sigmoid(beta * x_BTF)
