"""Nothing is matched: every choice has the size that its own settings give it."""

from dataclasses import dataclass

from lab.match import MatchConfig
from lab.model.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class Config(MatchConfig):
    """Tables print how far sizes differ."""

    def measure(self, model: Transformer, seq_len: int) -> float:
        """Nothing to measure."""
        raise NotImplementedError
