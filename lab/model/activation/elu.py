"""Exponential linear unit, x for x > 0, else alpha (exp(x) - 1): arXiv:1511.07289, section 3."""

from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import nn

from lab.component import check_number
from lab.model.activation import ActivationConfig
from lab.model.feed_forward import FeedForward
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Two maps with an ELU between."""

    alpha: float
    """Minus the limit for x to minus infinity; > 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("alpha", self.alpha, above=0)

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        return FeedForward(dims.dim, self.width(dims), act=partial(F.elu, alpha=self.alpha), bias=self.bias)
