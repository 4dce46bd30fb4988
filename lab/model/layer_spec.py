"""What may differ from one layer to the next: the pattern of a model over its depth."""

from dataclasses import dataclass

from lab.model.attention_mask import FULL, Mask


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """One layer's place in the pattern; attention kinds give one per layer."""

    index: int
    """Number of the block, from 0."""
    mask: Mask = FULL
    """Which keys a query may see, beside the causal rule."""
    position_on: bool = True
    """Whether the position component acts in this layer."""
    theta: float | None = None
    """Base of the rotary frequencies in this layer; null: the position component's own."""
