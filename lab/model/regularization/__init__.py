"""The ``regularization`` group: dropout, weight decay and their kin. Its choices combine.

A choice has hooks for the whole model (``Regularization``) and makes modules for the places where it acts. All
do nothing unless overridden; ``RegularizationStack`` applies several choices in the order of their names.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from lab.component import Component
from lab.model.layer_spec import LayerSpec
from lab.model.logit_stats import LogitStats
from lab.model.sizes import Dims


class Regularization(nn.Module):
    """Hooks for the whole model, and the maker of the parts inside the layers."""

    needs_mean_logit = False
    """Whether ``loss`` asks for the mean logit."""

    def residual(self, spec: LayerSpec, dims: Dims) -> nn.Module | None:
        """A module y_BTD -> y_BTD for the end of each branch of layer ``spec``, after stability's."""
        return None

    def attention(self, spec: LayerSpec) -> nn.Module | None:
        """A module weights_BNTS -> weights_BNTS for attention weights; it rules out a fused kernel."""
        return None

    def embed(self, x_BTD: Tensor) -> Tensor:
        """Change the embeddings that enter the first block."""
        return x_BTD

    def loss(self, loss_C: Tensor, stats: LogitStats) -> Tensor:
        """Change the training loss per token; a reported loss stays plain cross-entropy."""
        return loss_C

    def decay(self, name: str, parameter: Tensor, lr: float) -> float:
        """Weight decay of one parameter, as the factor λ of θ ← θ - lr_t λ θ; ``lr`` is its own peak rate."""
        return 0.0


@dataclass(frozen=True, kw_only=True)
class RegularizationConfig(Component, ABC):
    """Contract: build the hooks of one choice."""

    @abstractmethod
    def build(self, dims: Dims) -> Regularization:
        """The model's part."""


class RegularizationStack(Regularization):
    """Several choices at once."""

    def __init__(self, parts: Mapping[str, Regularization]) -> None:
        super().__init__()
        for name, part in sorted(parts.items()):
            self.add_module(name, part)
        self.needs_mean_logit = any(part.needs_mean_logit for part in parts.values())

    def _parts(self) -> list[Regularization]:
        return cast(list[Regularization], list(self.children()))

    def residual(self, spec: LayerSpec, dims: Dims) -> nn.Sequential:
        """The modules of all that have one, in a row."""
        made = (part.residual(spec, dims) for part in self._parts())
        return nn.Sequential(*(module for module in made if module is not None))

    def attention(self, spec: LayerSpec) -> nn.Module | None:
        """The modules of all that have one, in a row."""
        made = [module for part in self._parts() if (module := part.attention(spec)) is not None]
        return nn.Sequential(*made) if made else None

    def embed(self, x_BTD: Tensor) -> Tensor:
        """All of them."""
        for part in self._parts():
            x_BTD = part.embed(x_BTD)
        return x_BTD

    def loss(self, loss_C: Tensor, stats: LogitStats) -> Tensor:
        """All of them."""
        for part in self._parts():
            loss_C = part.loss(loss_C, stats)
        return loss_C

    def decay(self, name: str, parameter: Tensor, lr: float) -> float:
        """Their sum."""
        return sum(part.decay(name, parameter, lr) for part in self._parts())
