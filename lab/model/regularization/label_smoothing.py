"""Label smoothing: a share of the target's probability is spread over the vocabulary: arXiv:1512.00567, section 7.

(1 - a) × nll + a × (logsumexp z - mean z), the mean over all V entries, the target's own among them, as in the
paper and in PyTorch.
"""

from dataclasses import dataclass

from torch import Tensor

from lab.component import check_number
from lab.model.logit_stats import LogitStats
from lab.model.regularization import Regularization, RegularizationConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(RegularizationConfig):
    """A loss that is least at less than full confidence; reported losses stay plain."""

    outside_graph = ("share",)

    share: float
    """a: probability that is spread evenly, in [0, 1); 0.1 in the paper and in arXiv:1706.03762."""

    def __post_init__(self) -> None:
        check_number("share", self.share, least=0, below=1)

    def build(self, dims: Dims) -> Regularization:
        """The change of the loss."""
        return LabelSmoothing(self.share)


class LabelSmoothing(Regularization):
    """Mixes in the cross-entropy with the uniform distribution."""

    needs_mean_logit = True

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def loss(self, loss_C: Tensor, stats: LogitStats) -> Tensor:
        """The mixed loss per token."""
        assert stats.mean is not None, "needs_mean_logit is set"
        return (1 - self.share) * loss_C + self.share * (stats.lse - stats.mean)
