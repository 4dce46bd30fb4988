"""NormHead, rows of the output head scaled to unit length before the logits: arXiv:2309.10305, appendix B.

A logit is then the length of the vector that enters the head times a cosine; with a final norm of gain one that
length is sqrt(D), so logits start with a standard deviation near one and not near zero. With tied embeddings the
rows are scaled for the output only.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from lab.component import check_number
from lab.model.sizes import Dims
from lab.model.stability import Stability, StabilityConfig


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Takes the lengths of the output embeddings out of the logits."""

    eps: float
    """Smallest length that is divided by, > 0."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dims: Dims) -> Stability:
        """The head's normalisation."""
        return NormHead(self.eps)


class NormHead(Stability):
    """Normalises the head."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def head_weight(self, weight_VD: Tensor) -> Tensor:
        """Scale each row to unit length."""
        return F.normalize(weight_VD, dim=-1, eps=self.eps)
