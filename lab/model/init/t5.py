"""T5: variance 1/fan-in, queries narrower by sqrt(H) in place of a scale of the scores: arXiv:1910.10683, its code.

The token table is N(0, 1), the table of relative position biases N(0, 1/D). An untied head is N(0, 1/D), as in the
authors' later code; the port in transformers has N(0, 1) there. Scores are not divided by sqrt(H).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.model.init import InitConfig
from lab.model.sizes import Dims


@dataclass(frozen=True, kw_only=True)
class Config(InitConfig):
    """Normal draws by fan-in; a scale of attention scores of 1, and of a tied head's logits of 1/sqrt(D)."""

    def draw(self, name: str, shape: torch.Size, dims: Dims, generator: torch.Generator) -> Tensor:
        """A normal draw."""
        return torch.randn(shape, generator=generator) * math.sqrt(self._variance(name, shape, dims))

    def _variance(self, name: str, shape: torch.Size, dims: Dims) -> float:
        if name.startswith("embedding."):
            return 1.0
        if name.startswith("position."):
            return 1 / dims.dim
        if name.endswith((".attn.q.weight", ".attn.q_up.weight")):
            return dims.n_heads / (shape[-1] * shape[-2])  # the rows of one head are its width
        return 1 / shape[-1]

    def attention_scale(self, head_dim: int) -> float:
        """None is applied: the queries' narrower draws stand for it."""
        return 1.0

    def logit_scale(self, dim: int, *, tied: bool) -> float:
        """1/sqrt(D) with a tied head, whose rows have N(0, 1) entries."""
        return dim**-0.5 if tied else 1.0
