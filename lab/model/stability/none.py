"""No stability measure; excludes every other choice of the group."""

from dataclasses import dataclass

from lab.model.sizes import Dims
from lab.model.stability import Stability, StabilityConfig


@dataclass(frozen=True, kw_only=True)
class Config(StabilityConfig):
    """Nothing."""

    def build(self, dims: Dims) -> Stability:
        """Hooks that do nothing."""
        return Stability()
