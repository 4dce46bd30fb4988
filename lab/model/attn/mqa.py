"""Multi-query attention, one key/value head for all query heads: arXiv:1911.02150, section 3."""

from dataclasses import dataclass

from lab.model.attention import DotProductConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(DotProductConfig):
    """K = 1."""

    def kv_heads(self, dims: Dims) -> int:
        """One."""
        return 1
