"""Soft-capped final logits, cap × tanh(z / cap): arXiv:2408.00118, section 2."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lab.component import check_number
from lab.model.sizes import Dims
from lab.model.stability import Stability, StabilityConfig


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Bounds the final logits smoothly; a penalty on the logits sees the capped ones."""

    cap: float
    """Largest absolute logit, > 0; 30 in Gemma 2."""

    def __post_init__(self) -> None:
        check_number("cap", self.cap, above=0)

    def build(self, dims: Dims) -> Stability:
        """The cap."""
        return LogitSoftcap(self.cap)


class LogitSoftcap(Stability):
    """Caps the logits."""

    changes_logits = True

    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def logits(self, z_CV: Tensor) -> Tensor:
        """Squash them."""
        return self.cap * torch.tanh(z_CV / self.cap)
