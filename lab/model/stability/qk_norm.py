"""QK-norm, an RMSNorm of queries and keys over each head, before positions: arXiv:2302.05442, section 2.

The paper (ViT-22B) uses LayerNorm; the RMS form with one gain shared by the heads is that of Qwen3 and Gemma 3.
"""

from dataclasses import dataclass

from torch import Tensor

from lab.component import check_number
from lab.model.layer_spec import LayerSpec
from lab.model.layers import RMSNorm
from lab.model.sizes import Dims
from lab.model.stability import AttentionStability, Stability, StabilityConfig


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Bounds attention scores by the square root of the head width, times the gains."""

    eps: float
    """Added to the mean square."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dims: Dims) -> Stability:
        """Norms in every layer."""
        return QKNorm(self.eps)


class QKNorm(Stability):
    """Makes the norms of each layer."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def attention(self, spec: LayerSpec, dims: Dims, n_kv_heads: int) -> AttentionStability:
        """A norm for queries and one for keys."""
        return AttentionQKNorm(dims.head_dim, eps=self.eps)


class AttentionQKNorm(AttentionStability):
    """Normalises queries and keys over the head width."""

    changes_keys = True

    def __init__(self, head_dim: int, *, eps: float) -> None:
        super().__init__()
        self.q = RMSNorm(head_dim, eps=eps)
        self.k = RMSNorm(head_dim, eps=eps)

    def qkv(self, q_BTNH: Tensor, k_BTKH: Tensor, v_BTKH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalise q and k."""
        return self.q(q_BTNH), self.k(k_BTKH), v_BTKH
