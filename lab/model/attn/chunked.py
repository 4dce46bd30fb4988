"""Chunked attention, the keys of the query's own chunk of C positions: the local layers of the Llama 4 code.

Block-diagonal and causal: floor(j / C) = floor(i / C) and j <= i. In Llama 4 the last of every four layers attends
to everything, without positions (``global_every`` and ``nope_every`` 4). Fixed factorised attention within its own
block is the same mask: arXiv:1904.10509, section 4.2.
"""

from dataclasses import dataclass

from lab.model.attention_mask import Chunked, Mask
from lab.model.local_attention import LocalConfig


@dataclass(frozen=True, kw_only=True)
class Config(LocalConfig):
    """A window that starts anew at every multiple of its width."""

    def local_mask(self, width: int) -> Mask:
        """So many keys."""
        return Chunked(width)
