"""LayerScale, x ← x + gain ⊙ f(x) with a learned gain per feature that starts small: arXiv:2103.17239."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lab.component import check_number
from lab.model.layer_spec import LayerSpec
from lab.model.norm import Site
from lab.model.sizes import Dims
from lab.model.stability import Stability, StabilityConfig

BY_DEPTH = ((18, 0.1), (24, 1e-5))
"""Where the gain starts in models of at most so many blocks."""
DEEPER = 1e-6
"""Where it starts in all others."""


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Lets a block start near the identity."""

    init: float | None
    """Where the gains start, > 0; null: by depth as in the paper, 0.1 up to 18 blocks, 1e-5 up to 24, then 1e-6."""

    def __post_init__(self) -> None:
        if self.init is not None:
            check_number("init", self.init, above=0)

    def build(self, dims: Dims) -> Stability:
        """A gain for each branch."""
        by_depth = next((start for depth, start in BY_DEPTH if dims.n_layers <= depth), DEEPER)
        return LayerScale(by_depth if self.init is None else self.init)


class LayerScale(Stability):
    """Makes the gain of each branch."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.start = start

    def branch(self, spec: LayerSpec, dims: Dims, site: Site) -> nn.Module:
        """A gain."""
        return BranchGain(dims.dim, self.start)


class BranchGain(nn.Module):
    """Multiplies each feature."""

    def __init__(self, dim: int, start: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((dim,), start))

    def forward(self, y_BTD: Tensor) -> Tensor:
        """Scale a branch's output."""
        return y_BTD * self.gain
