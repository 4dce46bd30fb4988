"""Value residual, every layer mixes the first layer's values into its own, a V_l + b V_1: arXiv:2410.17897.

The mixture is attended to and cached, so a cache holds no more than usual; the first layer's values of new tokens
come with the forward pass. They are taken after the hooks of stability, as that layer attends to them. ``fixed``:
a and b are the two shares, 0.5 each in the paper's plain form; ``learned``: two numbers per layer that start
there. The first layer has nothing to mix and no numbers; where it stands in for later layers too
(``model.layers_shared``) it mixes there by the shares, whatever ``mix`` is.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from lab.component import check_number
from lab.model.attention import DotProductAttention, GroupedConfig
from lab.model.attn import Attention, AttnParts
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


class Mix(StrEnum):
    """What the shares are."""

    learned = "learned"
    fixed = "fixed"


@dataclass(frozen=True, kw_only=True)
class Config(GroupedConfig):
    """Grouped-query attention with values that reach back to the first layer."""

    mix: Mix
    """``learned``: the shares are where training starts from, layer by layer; ``fixed``: they stay."""
    own_share: int | float
    """Factor a of the layer's own values."""
    first_share: int | float
    """Factor b of the first layer's values."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("own_share", self.own_share)
        check_number("first_share", self.first_share)

    def branch(self, dims: Dims, layer: LayerSpec, parts: AttnParts) -> Attention:
        """The module of one layer."""
        return ValueResidualAttention(self, dims, layer, parts)


class ValueResidualAttention(DotProductAttention):
    """Leaves its values for later layers if it is the first, else mixes those in."""

    KEY = "first_values"
    """Name of the first layer's values among what layers share."""

    own_share: Tensor | float
    first_share: Tensor | float

    def __init__(self, config: Config, dims: Dims, layer: LayerSpec, parts: AttnParts) -> None:
        super().__init__(config, dims, layer, parts)
        if config.mix == Mix.learned and layer.index:
            self.own_share = nn.Parameter(torch.full((1,), float(config.own_share)))
            self.first_share = nn.Parameter(torch.full((1,), float(config.first_share)))
        else:
            self.own_share, self.first_share = config.own_share, config.first_share

    def values(self, v_BTKH: Tensor, shared: dict[str, Any] | None) -> Tensor:
        """The mixture; values stay as they are in the first layer, and where nothing is shared."""
        if shared is None:
            return v_BTKH
        if self.KEY not in shared:
            shared[self.KEY] = v_BTKH
            return v_BTKH
        first_BTKH: Tensor = shared[self.KEY]
        return (self.own_share * v_BTKH + self.first_share * first_BTKH).to(v_BTKH.dtype)
