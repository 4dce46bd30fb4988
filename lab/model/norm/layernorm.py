"""Layer normalization, g (x - mean) / sqrt(var + eps) + b, variance over D: arXiv:1607.06450, equation 4."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.component import check_number
from lab.model.norm import NormConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(NormConfig):
    """LayerNorm with gain and bias."""

    eps: float
    """Added to the variance, so in units of activation squared."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """A LayerNorm with its gain at one and its bias at zero."""
        return LayerNorm(dim, eps=self.eps)


class LayerNorm(nn.Module):
    """Subtracts the mean and divides by the standard deviation of the last axis, then a learned gain and bias."""

    def __init__(self, dim: int, *, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Normalise each vector."""
        return F.layer_norm(x_BTD, self.gain.shape, self.gain, self.bias, self.eps)
