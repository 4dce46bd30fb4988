"""The scaled init of OLMo-0424: 1/sqrt(D), output matrices of block l 1/sqrt(2 D l): arXiv:2501.00656, section 3.2.

l counts blocks from 1. That is the paper's rule; the released code divides the feed-forward output's by its own
fan-in F in place of D, and cuts every draw at three standard deviations, as is done here.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.component import check_number
from lab.model.init import InitConfig, truncated_normal, writes_to_stream
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(InitConfig):
    """Draws that shrink with width, and for output matrices with depth."""

    cut: float
    """Where the distribution ends, in standard deviations."""

    def __post_init__(self) -> None:
        check_number("cut", self.cut, above=0)

    def draw(self, name: str, shape: torch.Size, dims: Dims, generator: torch.Generator) -> Tensor:
        """A truncated normal draw, narrower for the outputs of later blocks."""
        variance = 1 / dims.dim
        if writes_to_stream(name):
            block = int(name.split(".")[1]) + 1  # blocks.I.BRANCH.out.weight
            variance /= 2 * block
        return truncated_normal(shape, math.sqrt(variance), generator, cut=self.cut)
