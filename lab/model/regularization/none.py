"""No regularization; excludes every other choice of the group."""

from dataclasses import dataclass

from lab.model.regularization import Regularization, RegularizationConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(RegularizationConfig):
    """Nothing."""

    def build(self, dims: Dims) -> Regularization:
        """Hooks that do nothing."""
        return Regularization()
