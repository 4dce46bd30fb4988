"""The ``activation`` group: the whole feed-forward branch, since gating changes its shapes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import nn

from lab.component import Component, check_number
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class ActivationConfig(Component, ABC):
    """Contract: build a module x_BTD -> x_BTD of inner width F."""

    ratio: float
    """F / D, used when ``d_ff`` is null: 4 for plain, 8/3 for gated ones gives about equal parameters."""
    d_ff: int | None
    """Inner width F; null: ``ratio`` × dim, rounded to the nearest ``multiple_of``."""
    multiple_of: int
    """What a width that comes from ``ratio`` is rounded to."""
    bias: bool
    """Whether the linear maps have biases."""

    def __post_init__(self) -> None:
        check_number("ratio", self.ratio, above=0)
        check_number("multiple_of", self.multiple_of, least=1)
        if self.d_ff is not None:
            check_number("d_ff", self.d_ff, least=1)

    def width(self, dims: Dims) -> int:
        """The inner width F."""
        if self.d_ff is not None:
            return self.d_ff
        return max(1, round(self.ratio * dims.dim / self.multiple_of)) * self.multiple_of

    @abstractmethod
    def build(self, dims: Dims) -> nn.Module:
        """The feed-forward branch."""
