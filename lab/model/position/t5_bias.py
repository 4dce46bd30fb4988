"""Learned biases of the scores, one for each head and bucket of distances: arXiv:1910.10683, section 2.1.

Causal buckets, of B: the first B/2 hold one distance each, the others grow geometrically up to ``max_distance``,
and the last takes all beyond. One table serves all layers, as in T5. T5 does not scale its scores and makes up for
it in its init: ``attn.scale=1``, ``init=t5``.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.component import check, check_number
from lab.model.layer_spec import LayerSpec
from lab.model.layers import Embedding
from lab.model.position import LayerPosition, Position, PositionConfig
from lab.model.relative import as_tensor, by_key, distances
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(PositionConfig):
    """A bias per head and bucket, shared by the layers."""

    buckets: int
    """Number of buckets, >= 2."""
    max_distance: int
    """Tokens from which on all distances share the last bucket; above half the number of buckets."""

    def __post_init__(self) -> None:
        check_number("buckets", self.buckets, least=2)
        half = self.buckets // 2
        check(
            self.max_distance > half, "max_distance", self.max_distance, f"must be above half the buckets, {half}"
        )

    def build(self, dims: Dims) -> Position:
        """The table."""
        return BucketBiases(dims.n_heads, buckets=self.buckets, max_distance=self.max_distance)


def bucket(distance: Tensor, *, buckets: int, max_distance: int) -> Tensor:
    """The bucket of each distance, a whole number >= 0; logarithms in fp32, as in Hugging Face's T5."""
    exact = buckets // 2
    share = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    beyond = exact + (share * (buckets - exact)).long()
    return torch.where(distance < exact, distance, beyond.clamp(max=buckets - 1))


class BucketBiases(Position):
    """Owns the table that all layers use."""

    def __init__(self, n_heads: int, *, buckets: int, max_distance: int) -> None:
        super().__init__()
        self.table = Embedding(buckets, n_heads)
        reach = torch.arange(max_distance + 1, device="cpu")  # on meta it would load dynamo
        self.bucket_of = bucket(reach, buckets=buckets, max_distance=max_distance).tolist()

    def layer(self, spec: LayerSpec, head_dim: int) -> LayerPosition:
        """A view of the table."""
        return LayerBucketBias(self.table, self.bucket_of)


class LayerBucketBias(LayerPosition):
    """Looks up the bias of each distance, then lays it out by query and key."""

    def __init__(self, table: Embedding, bucket_of: list[int]) -> None:
        super().__init__()
        self.shared = (table,)  # in a tuple, so that the table stays the model's and is in its state once
        self.bucket_of: Tensor
        self.register_buffer("bucket_of", torch.tensor(bucket_of, device="cpu"), persistent=False)

    def score_bias(self, q_BTNH: Tensor, pos_T: range, pos_S: range, scale: float) -> Tensor:
        """The table's number for head and bucket, (N, T, S); it is not scaled."""
        distance_J = as_tensor(distances(pos_T, pos_S), q_BTNH).clamp(max=self.bucket_of.shape[0] - 1)
        bias_JN: Tensor = self.shared[0](self.bucket_of[distance_J])
        return by_key(bias_JN.T.unsqueeze(1).expand(-1, len(pos_T), -1), len(pos_S))
