"""Weight decay, decoupled from the gradient: arXiv:1711.05101, algorithm 2, with the schedule s_t in [0, 1].

``coupled`` is θ ← θ - s_t lr λ θ, the form of PyTorch and Optax; ``independent`` is θ ← θ - s_t λ θ, the paper's
own and that of arXiv:2309.14322, where the decay stays as it is when the learning rate changes. At one peak rate
they are the same with a λ that is ``lr`` times smaller; lr is the parameter's own, with the init's factor and,
under Muon, its optimizer's.
"""

from dataclasses import dataclass
from enum import StrEnum

from torch import Tensor

from lab.component import check_number
from lab.model.regularization import Regularization, RegularizationConfig
from lab.model.sizes import Dims


class Form(StrEnum):
    """What the decay is multiplied by."""

    coupled = "coupled"
    independent = "independent"


@dataclass(frozen=True, kw_only=True)
class Config(RegularizationConfig):
    """Decay of weights, and where asked of the rest; scalars other than gains and biases are never decayed."""

    outside_graph = ("rate", "form", "embeddings", "norms", "biases")

    rate: float
    """λ; per unit of learning rate 0.1 is common, independent of it 1e-4."""
    form: Form
    """Whether the learning rate multiplies the decay, or the schedule alone."""
    embeddings: bool
    """Whether token and position tables and the output head are decayed too."""
    norms: bool
    """Whether gains are decayed too, of norms and elsewhere; one stored as 1 + w is drawn to 1, others to 0."""
    biases: bool
    """Whether biases are decayed too."""

    def __post_init__(self) -> None:
        check_number("rate", self.rate, least=0)

    def build(self, dims: Dims) -> Regularization:
        """The rule of which parameter decays."""
        return WeightDecay(self)


class WeightDecay(Regularization):
    """Decays by the last part of a parameter's name."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def decay(self, name: str, parameter: Tensor, lr: float) -> float:
        """The rate, or zero for what is left out."""
        config, kind = self.config, name.rpartition(".")[2]
        decays = {
            "weight": name.startswith("blocks.") or config.embeddings,
            "gain": config.norms,
            "gain_offset": config.norms,
            "bias": config.biases,
        }
        if not decays.get(kind, False):
            return 0.0
        return config.rate / lr if config.form == Form.independent else config.rate
