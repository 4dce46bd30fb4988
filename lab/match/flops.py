"""Equal training FLOPs per token, by the closed formula of ``lab.model.count``: a rule of arXiv:2102.11972."""

from dataclasses import dataclass
from typing import ClassVar

from lab.match import MatchConfig
from lab.model.count import training_flops_per_token
from lab.model.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class Config(MatchConfig):
    """Matched in computation."""

    unit: ClassVar[str | None] = "FLOPs per token"

    def measure(self, model: Transformer, seq_len: int) -> float:
        """FLOPs of one forward and backward pass per token."""
        return training_flops_per_token(model, seq_len)
