"""QKV clipping, the entries of queries, keys and values held within ±limit: arXiv:2501.00656, table 1.

After the projections and before positions, as in OLMo, MPT and DBRX. An entry beyond the limit has no gradient.
"""

from dataclasses import dataclass

from torch import Tensor

from lab.component import check_number
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims
from lab.model.stability import AttentionStability, Stability, StabilityConfig


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Bounds what enters attention."""

    limit: float
    """Largest absolute entry, > 0; 8 in OLMo-0424 and DBRX."""

    def __post_init__(self) -> None:
        check_number("limit", self.limit, above=0)

    def build(self, dims: Dims) -> Stability:
        """A limit in every layer."""
        return QKVClip(self.limit)


class QKVClip(Stability):
    """Makes the limit of each layer."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def attention(self, spec: LayerSpec, dims: Dims, n_kv_heads: int) -> AttentionStability:
        """The same for all."""
        return AttentionClip(self.limit)


class AttentionClip(AttentionStability):
    """Clips queries, keys and values."""

    changes_keys = True

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def qkv(self, q_BTNH: Tensor, k_BTKH: Tensor, v_BTKH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Clip all three."""
        limit = self.limit
        return q_BTNH.clamp(-limit, limit), k_BTKH.clamp(-limit, limit), v_BTKH.clamp(-limit, limit)
