"""Dropout of embeddings, attention weights and branch outputs: arXiv:1706.03762, section 5.4."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from lab.component import check_number
from lab.model.layer_spec import LayerSpec
from lab.model.regularization import Regularization, RegularizationConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(RegularizationConfig):
    """Rates are the share of entries set to zero in training, in [0, 1); the rest are scaled up."""

    embed: float
    """Rate on the sum of token and position embeddings."""
    attention: float
    """Rate on attention weights; above zero it rules out a fused attention kernel."""
    residual: float
    """Rate on the output of each branch, before it is added to the residual stream."""

    def __post_init__(self) -> None:
        for key in ("embed", "attention", "residual"):
            check_number(key, getattr(self, key), least=0, below=1)

    def build(self, dims: Dims) -> Regularization:
        """The dropout modules."""
        return Dropout(self)


class Dropout(Regularization):
    """Makes the dropout modules of each place; noise comes from the global generator, seeded at each step."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def residual(self, spec: LayerSpec, dims: Dims) -> nn.Module:
        """Dropout at the end of a branch."""
        return nn.Dropout(self.config.residual)

    def attention(self, spec: LayerSpec) -> nn.Module | None:
        """Dropout of attention weights."""
        return nn.Dropout(self.config.attention) if self.config.attention else None

    def embed(self, x_BTD: Tensor) -> Tensor:
        """Dropout of embeddings."""
        return F.dropout(x_BTD, self.config.embed, self.training)
