"""Equal numbers of parameters, all of them, shared ones counted once: the rule of arXiv:2002.05202, section 3."""

from dataclasses import dataclass
from typing import ClassVar

from lab.match import MatchConfig
from lab.model.count import parameters
from lab.model.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class Config(MatchConfig):
    """Matched in parameters."""

    unit: ClassVar[str | None] = "parameters"

    def measure(self, model: Transformer, seq_len: int) -> float:
        """All parameters."""
        return float(parameters(model).total)
