"""Longformer's attention, causal: a sliding window and a few tokens that all see: arXiv:2004.05150, section 3.1.

A language model takes the left half of the two-sided window, W keys with the query's own here. The tokens for all
are the first of the sequence, and being first they see all that is before them anyway. Global attention has
projections of its own in the paper's encoder; here it shares those of the window. The cache holds the window and
the first tokens.
"""

from dataclasses import dataclass

from lab.component import check_number
from lab.model.attention_mask import Mask, SlidingAndFirst
from lab.model.local_attention import LocalConfig


@dataclass(frozen=True, kw_only=True)
class Config(LocalConfig):
    """A window that moves with the query, and the first tokens."""

    n_global: int
    """First tokens of the sequence, in reach of all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("n_global", self.n_global, least=1)

    def local_mask(self, width: int) -> Mask:
        """So many keys, and the first ones."""
        return SlidingAndFirst(width, self.n_global)
