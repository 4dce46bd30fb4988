"""Grouped-query attention, groups of query heads share a key/value head: arXiv:2305.13245, section 2.2."""

from dataclasses import dataclass

from lab.model.attention import GroupedConfig


@dataclass(frozen=True, kw_only=True)
class Config(GroupedConfig):
    """1 < K < N, usually."""
