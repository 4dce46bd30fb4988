"""QKV-norm, a norm of each head's queries, keys and values after their projections: arXiv:2410.16682.

It replaces the norm before attention there, which this choice leaves as it is: ``block`` decides on that.
HybridNorm (arXiv:2503.04598) has the same three norms.
"""

from dataclasses import dataclass

from torch import Tensor

from lab.component import check_number
from lab.model.layer_spec import LayerSpec
from lab.model.sizes import Dims
from lab.model.stability import AttentionStability, Stability, StabilityConfig
from lab.model.stability._norm_kind import NormKind, build_norm


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Bounds attention scores and what attention returns."""

    norm: NormKind
    """``rmsnorm``, ``rmsnorm_1p``, ``rmsnorm_plain``, ``layernorm`` or ``layernorm_no_bias``, over the head width
    with one gain for all heads."""
    eps: float
    """Added to the mean square or variance, > 0."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0)

    def build(self, dims: Dims) -> Stability:
        """Norms in every layer."""
        return QKVNorm(self)


class QKVNorm(Stability):
    """Makes the norms of each layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def attention(self, spec: LayerSpec, dims: Dims, n_kv_heads: int) -> AttentionStability:
        """Three norms."""
        return AttentionQKVNorm(self.config, dims.head_dim)


class AttentionQKVNorm(AttentionStability):
    """Normalises queries, keys and values over the head width."""

    changes_keys = True

    def __init__(self, config: Config, head_dim: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (build_norm(config.norm, head_dim, eps=config.eps) for _ in range(3))

    def qkv(self, q_BTNH: Tensor, k_BTKH: Tensor, v_BTKH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalise all three."""
        return self.q(q_BTNH), self.k(k_BTKH), self.v(v_BTKH)
