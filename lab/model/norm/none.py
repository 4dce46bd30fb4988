"""No norm: the residual stream goes into the branches as it is."""

from dataclasses import dataclass

from torch import nn

from lab.model.norm import NormConfig, Site


@dataclass(frozen=True, kw_only=True)
class Config(NormConfig):
    """Identity in place of every norm of the blocks and of the final norm."""

    def build(self, dim: int, *, site: Site) -> nn.Module:
        """The identity."""
        return nn.Identity()
