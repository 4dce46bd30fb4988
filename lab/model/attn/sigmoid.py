"""Sigmoid attention, weights sigmoid(S + b) in place of a softmax, b = -ln T: arXiv:2409.04431.

Weights do not add up to one, and a query may look at nothing. T is the training length, ``model.max_seq_len``, for
every query and at every length: one number, so that decoding step by step sees what training saw. The number of
keys that a query sees would be another choice; the paper takes the sequence length. Hidden keys have weight zero.
No fused kernel of PyTorch computes this, so it always takes the plain path.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.component import check_number
from lab.model.attention import DotProductAttention, GroupedConfig
from lab.model.attn import Attention, AttnParts
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(GroupedConfig):
    """Grouped-query attention with a sigmoid for a softmax."""

    score_bias: int | float | None
    """The number b added to the scores; null: -ln of model.max_seq_len."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.score_bias is not None:
            check_number("score_bias", self.score_bias)

    def branch(self, dims: Dims, layer: LayerSpec, parts: AttnParts) -> Attention:
        """The module of one layer."""
        return SigmoidAttention(self, dims, layer, parts)


class SigmoidAttention(DotProductAttention):
    """Every key is weighed by itself."""

    own_weights = True

    def __init__(self, config: Config, dims: Dims, layer: LayerSpec, parts: AttnParts) -> None:
        super().__init__(config, dims, layer, parts)
        self.score_bias = -math.log(dims.max_seq_len) if config.score_bias is None else config.score_bias

    def weigh(self, scores_BNTS: Tensor) -> Tensor:
        """Weights between 0 and 1, computed in fp32 at least; the result has the type of the scores."""
        wide_BNTS = scores_BNTS.to(torch.promote_types(scores_BNTS.dtype, torch.float32))
        return torch.sigmoid(wide_BNTS + self.score_bias).to(scores_BNTS.dtype)
