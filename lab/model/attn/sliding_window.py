"""Sliding-window attention, the W latest keys with the query's own: arXiv:2310.06825, section 2 (Mistral).

With ``global_every`` some layers attend to everything: every second one in Gemma 2 (arXiv:2408.00118, section 2),
every sixth, with a RoPE base of its own, in Gemma 3; with ``nope_every`` too, every fourth without positions, in
Command R7B and A. The span of L windowed layers is L W at the most.
"""

from dataclasses import dataclass

from lab.model.attention_mask import Mask, Sliding
from lab.model.local_attention import LocalConfig


@dataclass(frozen=True, kw_only=True)
class Config(LocalConfig):
    """A window that moves with the query."""

    def local_mask(self, width: int) -> Mask:
        """So many keys."""
        return Sliding(width)
