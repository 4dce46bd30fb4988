"""Weight decay, decoupled from the gradient: arXiv:1711.05101, algorithm 2, in the form θ ← θ - lr_t λ θ.

That form, PyTorch's and Optax's, couples the decay to the learning rate; the paper's own multiplies λ by the
schedule alone.
"""

from dataclasses import dataclass

from torch import Tensor

from lab.component import check_number
from lab.model.regularization import Regularization, RegularizationConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(RegularizationConfig):
    """Decay of weights; gains, biases and other scalars are never decayed."""

    rate: float
    """λ, per unit of learning rate; 0.1 is common."""
    embeddings: bool
    """Whether token and position tables and the output head are decayed too."""

    def __post_init__(self) -> None:
        check_number("rate", self.rate, least=0)

    def build(self, dims: Dims) -> Regularization:
        """The rule of which parameter decays."""
        return WeightDecay(self)


class WeightDecay(Regularization):
    """Decays the parameters named ``weight``."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def decay(self, name: str, parameter: Tensor, lr: float) -> float:
        """The rate, or zero for what is left out."""
        if not name.endswith(".weight"):
            return 0.0
        inside = name.startswith("blocks.")
        return self.config.rate if inside or self.config.embeddings else 0.0
