"""ScaleNorm, g x / max(|x|, eps) with one gain: arXiv:1910.05895, equation 5.

The gain starts at sqrt(D), so that entries have about the size they have after an RMSNorm.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.component import check_number
from lab.model.norm import NormConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(NormConfig):
    """One gain for the whole vector."""

    eps: float
    """Smallest length that is divided by."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """A ScaleNorm with its gain at the square root of ``dim``."""
        return ScaleNorm(dim, eps=self.eps)


class ScaleNorm(nn.Module):
    """Divides each vector by its length, then multiplies by a learned number."""

    def __init__(self, dim: int, *, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(math.sqrt(dim)))
        self.eps = eps

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Normalise each vector, in the gain's precision; the result has the type of ``x_BTD``."""
        return (self.gain * F.normalize(x_BTD.to(self.gain.dtype), dim=-1, eps=self.eps)).to(x_BTD.dtype)
