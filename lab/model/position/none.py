"""No positions (NoPE): the causal mask alone carries order: arXiv:2203.16634, section 3; arXiv:2305.19466."""

from dataclasses import dataclass

from lab.model.position import Position, PositionConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(PositionConfig):
    """Nothing is added anywhere."""

    def build(self, dims: Dims) -> Position:
        """Hooks that do nothing."""
        return Position()
