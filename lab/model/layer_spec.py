"""What may differ from one layer to the next: the pattern of a model over its depth."""

from dataclasses import dataclass
from typing import Literal

Mask = Literal["full", "sliding", "chunked"]
"""Which earlier keys a query may see: see ``lab.model.attention_mask``."""


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """One layer's place in the pattern; attention kinds give one per layer."""

    index: int
    """Number of the block, from 0."""
    mask: Mask = "full"
    """Which keys a query may see, beside the causal rule."""
    window: int | None = None
    """Keys in reach, counting the query's own, where the mask has a width."""
    position_on: bool = True
    """Whether the position component acts in this layer."""
    theta: float | None = None
    """Base of the rotary frequencies in this layer; null: the position component's own."""
