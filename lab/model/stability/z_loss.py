"""z-loss, weight × log² Z added to the loss of each token: arXiv:2204.02311, section 5 (training setup)."""

from dataclasses import dataclass

from torch import Tensor

from lab.component import check_number
from lab.model.logit_stats import LogitStats
from lab.model.sizes import Dims
from lab.model.stability import Stability, StabilityConfig


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Keeps the softmax's denominator Z near one; its mean is over the same tokens as the loss."""

    weight: float
    """Factor of log² Z; 1e-4 in PaLM, 1e-5 in OLMo 2's configurations."""

    def __post_init__(self) -> None:
        check_number("weight", self.weight, least=0)

    def build(self, dims: Dims) -> Stability:
        """The penalty."""
        return ZLoss(self.weight)


class ZLoss(Stability):
    """Adds weight × logsumexp(z)² to the loss of each token."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight_of_penalty = weight

    def loss(self, stats: LogitStats) -> Tensor:
        """The penalty per token."""
        return self.weight_of_penalty * stats.lse.square()
