"""Partial RMSNorm, g x / sqrt(mean of the first k of x² + eps): arXiv:1910.07467, section 4 (which has no eps).

k is share × D rounded up, as in the paper and in Mesh TensorFlow; the authors' PyTorch code rounds it down. The
paper's share is 6.25 %, Narang et al. (arXiv:2102.11972) have 6.75 % in their settings. All D features are divided
and have a gain.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab.component import check_number
from lab.model.norm import EpsConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(EpsConfig):
    """RMSNorm whose root mean square is estimated from some of the features."""

    share: float
    """Part of the features that are looked at, in (0, 1]; at least one is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("share", self.share, above=0, most=1)

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """A partial RMSNorm with its gain at one."""
        n_seen = math.ceil(round(self.share * dim, 6))  # 0.07 x 100 is a little above 7 in floating point
        return PartialRMSNorm(dim, n_seen=max(1, n_seen), eps=self.eps)


class PartialRMSNorm(nn.Module):
    """Divides by the root mean square of the first ``n_seen`` features, then multiplies by a learned gain."""

    def __init__(self, dim: int, *, n_seen: int, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.n_seen, self.eps = n_seen, eps

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Normalise each vector, in the gain's precision; the result has the type of ``x_BTD``."""
        wide_BTD = x_BTD.to(self.gain.dtype)
        mean_square = wide_BTD[..., : self.n_seen].square().mean(-1, keepdim=True)
        return (wide_BTD * (mean_square + self.eps).rsqrt() * self.gain).to(x_BTD.dtype)
