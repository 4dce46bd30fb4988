"""Grouped-query attention, groups of query heads share a key/value head: arXiv:2305.13245, section 2.2."""

from dataclasses import dataclass

from lab.component import check_number
from lab.model.attention import DotProductConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(DotProductConfig):
    """1 < K < N, usually."""

    n_kv_heads: int
    """Number of key/value heads K; must divide the number of query heads."""

    def __post_init__(self) -> None:
        check_number("n_kv_heads", self.n_kv_heads, least=1)

    def kv_heads(self, dims: Dims) -> int:
        """As configured."""
        return self.n_kv_heads
