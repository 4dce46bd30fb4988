"""Stochastic depth: training leaves out branches at random, later ones more often: arXiv:1603.09382, equation 4.

A branch of layer l, counted from 1, is dropped with probability ``rate`` × l / L. Here, as in later code, each
sequence drops for itself and what stays is divided by its probability, so that nothing changes in evaluation; the
paper drops for a whole mini-batch and scales in evaluation. Attention and feed-forward branch drop apart.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from lab.component import check_number
from lab.model.layer_spec import LayerSpec
from lab.model.regularization import Regularization, RegularizationConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(RegularizationConfig):
    """The linear rule of depth."""

    rate: float
    """Probability that a branch of the last layer is dropped, in [0, 1)."""

    def __post_init__(self) -> None:
        check_number("rate", self.rate, least=0, below=1)

    def build(self, dims: Dims) -> Regularization:
        """The maker of the modules that drop."""
        return StochasticDepth(self.rate)


class StochasticDepth(Regularization):
    """Makes a module for each branch; noise comes from the global generator, seeded at each step."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def residual(self, spec: LayerSpec, dims: Dims) -> nn.Module:
        """The end of a branch of layer ``spec``."""
        return DropBranch(self.rate * (spec.index + 1) / dims.n_layers)


class DropBranch(nn.Module):
    """Zero for some sequences of a batch, the rest scaled up."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, y_BTD: Tensor) -> Tensor:
        """Dropout of whole sequences in training."""
        if not self.training:
            return y_BTD
        return y_BTD * F.dropout(y_BTD.new_ones(len(y_BTD), 1, 1), self.rate)
