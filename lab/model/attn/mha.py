"""Multi-head attention, every query head with its own key/value head: arXiv:1706.03762, section 3.2.2."""

from dataclasses import dataclass

from lab.model.attention import DotProductConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(DotProductConfig):
    """K = N."""

    def kv_heads(self, dims: Dims) -> int:
        """As many as query heads."""
        return dims.n_heads
