"""z-loss, weight × log² Z added to the loss of each token: arXiv:2204.02311, section 5 (training setup).

Three different penalties go by this name. ``squared_lse`` is PaLM's and OLMo's, the mean of log² Z over the
tokens. ``squared_mean_lse`` is that of open_lm and DCLM, the square of the mean of log Z, which lets single tokens
off; its mean is over the sequences that are computed at once, so over a micro batch where there are several.
``max_logit`` is the max-z loss of Baichuan 2 (arXiv:2309.10305), the mean of the largest logit squared.
"""

from dataclasses import dataclass
from enum import StrEnum

from torch import Tensor

from lab.component import check_number
from lab.model.logit_stats import LogitStats
from lab.model.sizes import Dims
from lab.model.stability import Stability, StabilityConfig


class Variant(StrEnum):
    """What is penalised."""

    squared_lse = "squared_lse"
    squared_mean_lse = "squared_mean_lse"
    max_logit = "max_logit"


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Keeps the softmax's denominator Z near one; its mean is over the same tokens as the loss."""

    outside_graph = ("weight",)

    variant: Variant
    """``squared_lse``: log² Z of each token; ``squared_mean_lse``: the square of its mean; ``max_logit``: the
    largest logit squared."""
    weight: float
    """Factor of the penalty, >= 0; 1e-4 in PaLM, 1e-5 in OLMo 2's configurations, 2e-4 in Baichuan 2."""

    def __post_init__(self) -> None:
        check_number("weight", self.weight, least=0)

    def build(self, dims: Dims) -> Stability:
        """The penalty."""
        return ZLoss(self.variant, self.weight)


def _squared_lse(stats: LogitStats) -> Tensor:
    return stats.lse.square()


def _squared_mean_lse(stats: LogitStats) -> Tensor:
    """2 m x - m² with the mean m as a constant: its mean is m², and its gradient that of m²."""
    assert stats.batch_lse is not None
    return stats.batch_lse * (2 * stats.lse - stats.batch_lse)


def _squared_max(stats: LogitStats) -> Tensor:
    return stats.max().square()


PENALTIES = {
    Variant.squared_lse: _squared_lse,
    Variant.squared_mean_lse: _squared_mean_lse,
    Variant.max_logit: _squared_max,
}


class ZLoss(Stability):
    """Adds weight × the penalty to the loss of each token."""

    def __init__(self, variant: Variant, weight: float) -> None:
        super().__init__()
        self.penalty, self.weight_of_penalty = PENALTIES[variant], weight
        self.needs_mean_lse = variant == Variant.squared_mean_lse

    def loss(self, stats: LogitStats) -> Tensor:
        """The penalty per token."""
        return self.weight_of_penalty * self.penalty(stats)
