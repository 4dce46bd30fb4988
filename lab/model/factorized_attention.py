"""Attention in two sparse steps, near keys and a few far ones: arXiv:1904.10509, section 4.

A query reaches every earlier key over two steps of about sqrt(T) keys each; the steps are taken by layers in turn,
at once, or by half of the heads each.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from enum import StrEnum

from lab.errors import ConfigError
from lab.model.attention import GroupedConfig, last_of
from lab.model.attention_mask import HalfOfTheHeads, Mask
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


class Combine(StrEnum):
    """Who takes which step."""

    alternate = "alternate"
    merged = "merged"
    heads = "heads"


@dataclass(frozen=True, kw_only=True)
class FactorizedConfig(GroupedConfig):
    """What the strided and the fixed pattern have in common."""

    combine: Combine
    """``alternate``: even layers, from 0, see near keys, odd ones far keys; ``merged``: all see both; ``heads``:
    the first half of the query heads sees near keys, the rest far ones."""

    def layer(self, index: int, dims: Dims) -> LayerSpec:
        """One of the steps, or both.

        Raises:
            ConfigError: the heads have no halves.
        """
        near, far, both = self.steps(dims)
        if self.combine == Combine.heads and dims.n_heads % 2:
            raise ConfigError(f"attn.combine heads needs an even model.n_heads, not {dims.n_heads}")
        masks: dict[Combine, Mask] = {
            Combine.alternate: far if index % 2 else near,
            Combine.merged: both,
            Combine.heads: HalfOfTheHeads(near, far, dims.n_heads),
        }
        position_on = not last_of(self.nope_every, index)
        return LayerSpec(index=index, mask=masks[self.combine], position_on=position_on)

    @abstractmethod
    def steps(self, dims: Dims) -> tuple[Mask, Mask, Mask]:
        """The masks of near keys, of far ones, and of both."""


def root(dims: Dims) -> int:
    """The square root of the training length, for which both steps see about as many keys."""
    return max(1, round(math.sqrt(dims.max_seq_len)))
