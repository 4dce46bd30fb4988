"""The ``init`` group: how weights are drawn, keyed by name so that variants of one seed share what they can."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from lab.component import Component
from lab.model.sizes import Dims
from lab.streams import stream_seed


@dataclass(frozen=True, kw_only=True)
class InitConfig(Component, ABC):
    """Contract: draw one weight, and scale its learning rate and the attention scores where the rule says so."""

    zero_branches: ClassVar[bool] = False
    """Whether the last matrix of each branch starts at zero."""

    @abstractmethod
    def draw(self, name: str, shape: torch.Size, dims: Dims, generator: torch.Generator) -> Tensor:
        """The initial value of the weight ``name``, in fp32 on the CPU."""

    def lr_scale(self, name: str, shape: torch.Size, dims: Dims) -> float:
        """Factor of the learning rate of one parameter."""
        return 1.0

    def attention_scale(self, head_dim: int) -> float | None:
        """The factor of attention scores that this rule was made for; None: 1/sqrt(H)."""
        return None

    def logit_scale(self, dim: int, *, tied: bool) -> float:
        """The factor of the vectors that enter the head that this rule was made for."""
        return 1.0


def is_table(name: str) -> bool:
    """Whether the rows of a weight are looked up by number: token and position tables."""
    return name.startswith(("embedding.", "position."))


def writes_to_stream(name: str) -> bool:
    """Whether a matrix is the last of a residual branch."""
    return name.endswith(".out.weight")


def truncated_normal(shape: torch.Size, std: float, generator: torch.Generator, *, cut: float) -> Tensor:
    """N(0, std²) drawn again beyond ``cut`` standard deviations; what is left is a little narrower than ``std``."""
    value = torch.empty(shape)
    return nn.init.trunc_normal_(value, std=std, a=-cut * std, b=cut * std, generator=generator)


def initialize(
    model: nn.Module,
    config: InitConfig,
    dims: Dims,
    *,
    study_seed: int,
    seed: int,
    gain: Callable[[str], float] = lambda name: 1.0,
) -> None:
    """Draw every parameter named ``weight``, each from its own generator; the others keep their values.

    What is drawn is multiplied by ``gain`` of the parameter's name.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith(".weight"):
                continue
            generator = torch.Generator().manual_seed(stream_seed(study_seed, seed, "init", name))
            parameter.copy_(config.draw(name, parameter.shape, dims, generator) * gain(name))
