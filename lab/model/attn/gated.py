"""Gated attention, Y' = Y * sigmoid(X W_g) before the output projection: arXiv:2505.06708, gate G1.

X is what enters the branch, already normed in most blocks, Y what the heads found. A gate for every entry of a
head, as in Qwen3-Next, or one for the whole head. The gate has a matrix of its own, without bias; Qwen3-Next keeps
its rows in the query projection, which is the same map.
"""

from dataclasses import dataclass
from enum import StrEnum

from torch import Tensor

from lab.model.attention import DotProductAttention, GroupedConfig
from lab.model.attn import Attention, AttnParts
from lab.model.layer_spec import LayerSpec
from lab.model.layers import Linear
from lab.model.sizes import Dims


class Gate(StrEnum):
    """What one gate stands before."""

    elementwise = "elementwise"
    headwise = "headwise"


@dataclass(frozen=True, kw_only=True)
class Config(GroupedConfig):
    """Grouped-query attention with a gate at its end."""

    gate: Gate
    """``elementwise``: N H gates a token, a matrix as large as that of the queries; ``headwise``: N gates."""

    def branch(self, dims: Dims, layer: LayerSpec, parts: AttnParts) -> Attention:
        """The module of one layer."""
        return GatedAttention(self, dims, layer, parts)


class GatedAttention(DotProductAttention):
    """Multiplies what each head found by a number between 0 and 1."""

    def __init__(self, config: Config, dims: Dims, layer: LayerSpec, parts: AttnParts) -> None:
        super().__init__(config, dims, layer, parts)
        width = self.head_dim if config.gate == Gate.elementwise else 1
        self.gate = Linear(dims.dim, self.n_heads * width, bias=False)

    def heads(self, y_BTNH: Tensor, x_BTD: Tensor) -> Tensor:
        """Gate each entry, or each head."""
        gate_BTR: Tensor = self.gate(x_BTD).sigmoid()
        return y_BTNH * gate_BTR.view(*y_BTNH.shape[:3], -1)
