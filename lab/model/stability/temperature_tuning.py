"""Temperature tuning, queries times 1 + a ln(1 + floor((t + 1) / s)) at position t: arXiv:2501.19399.

The form is that of Llama 4's code, a step function of the position with a 0.1 and s 8192, in its layers without
positions; the paper's Scalable-Softmax multiplies by the logarithm of the number of keys times a learned factor.
"""

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from lab.component import check_number
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims
from lab.model.stability import AttentionStability, Stability, StabilityConfig


class Layers(StrEnum):
    """In which layers."""

    all = "all"
    unpositioned = "unpositioned"


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Sharpens attention over many keys."""

    layers: Layers
    """``all``, or those in which no positions act (``unpositioned``), as in Llama 4."""
    floor_scale: int | None
    """Positions from one step of the factor to the next, s; null: ``floor_scale_share`` of model.max_seq_len."""
    floor_scale_share: float
    """That number over model.max_seq_len, used when ``floor_scale`` is null, > 0; at 1 or above only the last
    position of a training sequence, or none, is changed."""
    attn_scale: float
    """How much the factor grows with the logarithm, a, >= 0."""

    def __post_init__(self) -> None:
        check_number("floor_scale_share", self.floor_scale_share, above=0)
        check_number("attn_scale", self.attn_scale, least=0)
        if self.floor_scale is not None:
            check_number("floor_scale", self.floor_scale, least=1)

    def build(self, dims: Dims) -> Stability:
        """A factor in the layers that were asked for."""
        share = max(1, round(self.floor_scale_share * dims.max_seq_len))
        step = share if self.floor_scale is None else self.floor_scale
        return TemperatureTuning(self.layers, step, self.attn_scale)


class TemperatureTuning(Stability):
    """Makes the factor of each layer."""

    def __init__(self, layers: Layers, floor_scale: int, attn_scale: float) -> None:
        super().__init__()
        self.layers, self.floor_scale, self.attn_scale = layers, floor_scale, attn_scale

    def attention(self, spec: LayerSpec, dims: Dims, n_kv_heads: int) -> AttentionStability | None:
        """A factor, or none in a layer with positions that is left out."""
        if self.layers == Layers.unpositioned and spec.position_on:
            return None
        return QueryFactor(self.floor_scale, self.attn_scale)


class QueryFactor(AttentionStability):
    """Scales the queries by their position."""

    def __init__(self, floor_scale: int, attn_scale: float) -> None:
        super().__init__()
        self.floor_scale, self.attn_scale = floor_scale, attn_scale

    def rotated(self, q_BTNH: Tensor, k_BTKH: Tensor, pos_T: range) -> tuple[Tensor, Tensor]:
        """Multiply each query; keys stay as they are."""
        count_T = torch.arange(pos_T.start + 1, pos_T.stop + 1, device=q_BTNH.device)
        steps_T = (count_T // self.floor_scale).to(torch.promote_types(q_BTNH.dtype, torch.float32))
        factor_T = 1 + self.attn_scale * torch.log1p(steps_T)
        return (q_BTNH * factor_T[:, None, None]).to(q_BTNH.dtype), k_BTKH
