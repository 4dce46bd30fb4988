"""σReparam, a linear map's weight W replaced by (gamma / σ) W with σ its spectral norm: arXiv:2303.06296.

Applied to all linear maps, as in the released code: those of the blocks and an untied head, not embeddings or a
head that is one. gamma is learned, one number for each map. The paper starts it at one, the released code for
vision at the norm that the drawn weight has; this follows the paper, and ``gamma`` sets another start.

σ = uᵀ W v by power iteration; gradients flow through W and not through u and v, which are buffers. The code
iterates in each training forward. Here it is done once for each new value of the weight, so that the micro batches
of a step share one σ and a step can be repeated; evaluation does the same but keeps nothing. The code's first u is
exact. Here weights are drawn after modules are made, so the first estimate is from more iterations. A weight of
zeros is left so.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.component import check_number
from lab.model.sizes import Dims
from lab.model.stability import Stability, StabilityConfig

FIRST_ITERATIONS = 32
"""Power iterations of the first estimate."""


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Takes the spectral norm of every linear map out of its weight."""

    gamma: float
    """Where the spectral norm of each map starts, > 0; 1 in the paper."""
    iterations: int
    """Power iterations for each update of a weight, >= 1."""

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, above=0)
        check_number("iterations", self.iterations, least=1)

    def build(self, dims: Dims) -> Stability:
        """The maker of the maps' modules."""
        return SigmaReparam(self)


class SigmaReparam(Stability):
    """Makes the module of each linear map."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def weight(self, name: str, weight: Tensor) -> nn.Module:
        """One for every map."""
        n_out, n_in = weight.shape
        return SpectralNorm(n_out, n_in, gamma=self.config.gamma, iterations=self.config.iterations)


class SpectralNorm(nn.Module):
    """Gives a weight the spectral norm gamma."""

    u: Tensor
    v: Tensor
    sigma: Tensor

    def __init__(self, n_out: int, n_in: int, *, gamma: float, iterations: int) -> None:
        super().__init__()
        self.iterations, self.fresh = iterations, True
        self.gamma = nn.Parameter(torch.tensor(gamma))
        self.register_buffer("u", torch.full((n_out,), n_out**-0.5))
        self.register_buffer("v", torch.full((n_in,), n_in**-0.5))
        self.register_buffer("sigma", torch.tensor(-1.0))  # of the weight that u and v belong to; below 0: of none

    def forward(self, weight: Tensor) -> Tensor:
        """The weight in use, computed in the weight's precision."""
        with torch.autocast(weight.device.type, enabled=False):
            u, v = self._vectors(weight)
            sigma = _product(u, weight, v)
            return weight * (self.gamma / torch.where(sigma > 0, sigma, 1.0))

    @torch.no_grad()
    def _vectors(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Singular vectors for this value of the weight; remembered in training."""
        u, v = self.u, self.v
        for _ in range(FIRST_ITERATIONS if self.fresh else self.iterations):
            v = F.normalize(torch.mv(weight.T, u), dim=0)
            u = F.normalize(torch.mv(weight, v), dim=0)
        known = _product(self.u, weight, self.v) == self.sigma  # no branch: it would have to wait for the device
        keep = known | (_product(u, weight, v) <= 0)
        u, v = torch.where(keep, self.u, u), torch.where(keep, self.v, v)
        if self.training:
            self.fresh = False
            self.u.copy_(u)
            self.v.copy_(v)
            self.sigma.copy_(_product(u, weight, v))
        return u, v

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self.fresh = bool(self.sigma < 0)


def _product(u: Tensor, weight: Tensor, v: Tensor) -> Tensor:
    return torch.dot(u, torch.mv(weight, v))
