"""The ``norm`` group: what normalises a vector of the model's width."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from torch import nn

from lab.component import Component, check_number

Site = Literal["attn", "ffn", "final", "embed"]
"""Where a norm stands: at an attention or feed-forward branch, before the head, after the embedding."""


@dataclass(frozen=True, kw_only=True)
class NormConfig(Component, ABC):
    """Contract: build a module x_BTD -> x_BTD."""

    @abstractmethod
    def build(self, dim: int, *, site: Site) -> nn.Module:
        """The norm of vectors of width ``dim``; one that starts differently by place looks at ``site``."""


@dataclass(frozen=True, kw_only=True)
class EpsConfig(NormConfig):
    """What norms that divide by a root have in common."""

    eps: float
    """Added to the variance or the mean square, so in units of activation squared."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)
