"""GEGLU, (GELU(x W) * x V) W2: arXiv:2002.05202, equation 6.

The paper's GELU is the exact one; T5 v1.1 and Gemma use the tanh approximation.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import torch.nn.functional as F
from torch import nn

from lab.model.activation import ActivationConfig
from lab.model.feed_forward import GatedFeedForward
from lab.model.sizes import Dims


class Approximate(StrEnum):
    """How GELU is computed."""

    none = "none"
    tanh = "tanh"


@dataclass(frozen=True, kw_only=True)
class Config(ActivationConfig):
    """Three maps; the gate passes through a GELU."""

    approximate: Approximate
    """``none``: x Φ(x) by erf; ``tanh``: x/2 (1 + tanh(sqrt(2/π) (x + 0.044715 x³)))."""

    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
        act = partial(F.gelu, approximate=str(self.approximate))
        return GatedFeedForward(dims.dim, self.width(dims), act=act, bias=self.bias)
