"""The ``attn`` group: what mixes information between positions."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from lab.component import Component
from lab.model.attention_path import Path
from lab.model.layer_spec import LayerSpec
from lab.model.position import LayerPosition
from lab.model.regularization import Regularization
from lab.model.sizes import Dims
from lab.model.stability import Stability

Losses = dict[str, Tensor]
"""Auxiliary losses by name, each a mean over the batch's tokens, in nats; added to the training loss."""


class Attention(nn.Module, ABC):
    """An attention branch of one layer, causal."""

    path: Path
    """How scores are computed here: as asked for, or ``plain`` where a hook has to see them."""
    layer: LayerSpec
    """The layer's place in the pattern."""
    selects = False
    """Whether a query sees less than ``layer.mask`` lets it, by what the keys hold."""
    mask_note = ""
    """What a picture of ``layer.mask`` has to say of this kind: that it is more than a query reads, and why."""

    @abstractmethod
    def forward(
        self, x_BTD: Tensor, cache: Any = None, offset: int = 0, shared: dict[str, Any] | None = None
    ) -> tuple[Tensor, Losses]:
        """Attend.

        ``cache`` is what ``new_cache`` gave, and grows by T positions; ``offset`` is the position of the first
        token of ``x_BTD``; ``shared`` is a scratch that all layers of one forward pass see.
        """

    @abstractmethod
    def new_cache(self) -> Any:
        """An empty cache for decoding step by step."""

    @abstractmethod
    def cache_bytes(self, n_tokens: int, *, element_bytes: int) -> int:
        """Bytes that a cache of ``n_tokens`` positions takes for one sequence, at ``element_bytes`` a number."""

    @abstractmethod
    def flops(self, seq_len: int) -> float:
        """FLOPs of scores and weighted sums per token, forward, without the linear maps."""


@dataclass(frozen=True, kw_only=True)
class AttnParts:
    """What an attention branch is given beside its sizes."""

    position: Callable[[int], LayerPosition]
    """Makes the layer's part of the position component, given the width of a head that positions act on."""
    stability: Stability
    """Makes the hooks inside the branch."""
    regularization: Regularization
    """Makes what attention weights pass through."""
    path: Path
    """How to compute scores where no hook has to see them."""
    scale: Callable[[int], float | None]
    """The factor of scores that the initialisation was made for, given the width of a key; None: 1/sqrt(H)."""


@dataclass(frozen=True, kw_only=True)
class AttnConfig(Component, ABC):
    """Contract: the pattern over the layers, and the attention branch of each."""

    def layer(self, index: int, dims: Dims) -> LayerSpec:
        """What is particular to layer ``index``; here all are alike."""
        return LayerSpec(index=index)

    def trains(self, name: str) -> bool:
        """Whether training changes the model's parameter ``name``; a frozen one keeps the value it starts with."""
        return True

    @abstractmethod
    def build(self, dims: Dims, layer: LayerSpec, parts: AttnParts) -> Attention:
        """The branch of one layer.

        Raises:
            ConfigError: the sizes do not go together.
        """
