"""Strided attention, near keys and every stride's one before them: arXiv:1904.10509, section 4.2.

With stride l, near: t - l <= s, l + 1 keys; far: (t - s) mod l = 0. The released code counts l near keys,
s > t - l; key t - l is in the far set as well, so that ``combine`` merged is the same in both. Every key is in the
far set of some later query, so that only layers of near keys alone can do with a short cache.
"""

from dataclasses import dataclass

from lab.component import check_number
from lab.model.attention_mask import Mask, NearAndStrided, Sliding, Strided
from lab.model.factorized_attention import FactorizedConfig, root
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(FactorizedConfig):
    """For sequences with a period, as an image's rows."""

    stride: int | None
    """Distance of far keys, and reach of near ones; null: sqrt of model.max_seq_len, as in the paper."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stride is not None:
            check_number("stride", self.stride, least=1)

    def steps(self, dims: Dims) -> tuple[Mask, Mask, Mask]:
        """A window, a comb, and both."""
        stride = self.stride if self.stride is not None else root(dims)
        return Sliding(stride + 1), Strided(stride), NearAndStrided(stride)
