"""The ``position`` group: how the model knows the order of tokens.

A position component has a part at the model's input (``Position``) and a part inside each attention layer
(``LayerPosition``), each with hooks that do nothing unless overridden.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from lab.component import Component
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


class LayerPosition(nn.Module):
    """Hooks inside one attention layer.

    Positions are ranges counted from the start of the sequence, so that a score bias can be asked for block by
    block and nothing has to be read back from a device.
    """

    biases_values = False
    """Whether ``value_bias`` does anything; a fused kernel, which holds no weights, is used where it does not."""

    def rotate(self, q_BTNH: Tensor, k_BTKH: Tensor, pos_T: range) -> tuple[Tensor, Tensor]:
        """Change new queries and keys by their position; cached keys come rotated already."""
        return q_BTNH, k_BTKH

    def half_split(self) -> "LayerPosition | None":
        """The rotation of this layer on pairs (p, p + r/2), for keys of another kind; None: nothing is turned."""
        return None

    def score_bias(self, q_BTNH: Tensor, pos_T: range, pos_S: range, scale: float) -> Tensor | None:
        """A term added to the scaled scores, broadcastable to (B, N, T, S).

        ``scale`` is the factor of the products of queries and keys, for a term that is such a product itself;
        ``q_BTNH`` is what ``rotate`` gave.
        """
        return None

    def value_bias(self, weights_BNTS: Tensor, pos_T: range, pos_S: range) -> Tensor | None:
        """A term added to the attention output of each head, (B, T, N, H)."""
        return None

    def flops(self, seq_len: int) -> float:
        """FLOPs of the matrix products of these hooks per token, forward, with ``seq_len`` keys."""
        return 0.0


class Position(nn.Module):
    """Hooks at the model's input, and the maker of the parts inside the layers."""

    longest: int | None = None
    """Positions there are; None: they go on."""

    def embed(self, x_BTD: Tensor, offset: int = 0) -> Tensor:
        """Change token embeddings; ``offset`` is the position of the first one."""
        return x_BTD

    def layer(self, spec: LayerSpec, head_dim: int) -> LayerPosition:
        """The part inside layer ``spec``, owned by that layer's attention.

        ``head_dim`` is the width of the part of a head that positions act on: all of it in most attentions.

        Raises:
            ConfigError: that width does not go with the choice.
        """
        return LayerPosition()


@dataclass(frozen=True, kw_only=True)
class PositionConfig(Component, ABC):
    """Contract: build the model's position component."""

    @abstractmethod
    def build(self, dims: Dims) -> Position:
        """The part at the model's input."""
