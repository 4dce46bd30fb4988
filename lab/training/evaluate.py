"""Validation: one pass over a fixed set of tokens.

The documents of a split, joined by end-of-text tokens, are cut into windows of T tokens that do not overlap; every
token after the first is scored exactly once, with the tokens of its own window before it as context. The loss is
the mean in nats per token, end-of-text included; bits per byte divide the same sum by ln 2 and by the UTF-8 bytes
of the documents, to which end-of-text tokens add none. Ranks that train together score windows in turn.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from lab.data.batches import eval_windows
from lab.model.loss import token_nats
from lab.model.transformer import Transformer
from lab.training.precision import compute_in
from lab.training.ranks import ALONE, Ranks

ROWS = 32
"""Windows scored at once."""


@dataclass(frozen=True)
class Evaluation:
    """What a pass gives."""

    loss: float
    """Nats per token."""
    bits_per_byte: float | None
    """None where the text behind the tokens is not known."""


class Evaluator:
    """A fixed set of tokens, ready to be scored."""

    def __init__(
        self,
        tokens: NDArray[Any],
        *,
        n_bytes: int,
        seq_len: int,
        device: str,
        precision: str,
        rows: int = ROWS,
        ranks: Ranks = ALONE,
    ) -> None:
        self.device, self.precision, self.rows, self.ranks = device, precision, rows, ranks
        x_WT, y_WT = eval_windows(tokens, seq_len)
        self.x_WT, self.y_WT = torch.from_numpy(x_WT), torch.from_numpy(y_WT)
        self.n_tokens, self.n_bytes = int((y_WT >= 0).sum()), n_bytes

    @torch.no_grad()
    def __call__(self, model: Transformer) -> Evaluation:
        """Score the set; the model is left in training mode."""
        return self._evaluation(self._scored(model))

    @torch.no_grad()
    def by_token(self, model: Transformer) -> tuple[Evaluation, Tensor]:
        """Score the set as a call does; and the nats of each target of each window, 0 where there is none."""
        scored = list(self._scored(model))
        return self._evaluation(scored), torch.cat(scored).cpu()

    def _scored(self, model: Transformer) -> Iterator[Tensor]:
        """The nats of each target, some windows at a time."""
        model.eval()
        for first in range(self.ranks.rank * self.rows, len(self.x_WT), self.ranks.size * self.rows):
            x_BT = self.x_WT[first : first + self.rows].to(self.device)
            y_BT = self.y_WT[first : first + self.rows].to(self.device)
            with compute_in(self.precision, self.device):
                hidden_BTD, _ = model.forward(x_BT)  # never compiled
                nats_BT = token_nats(model, hidden_BTD, y_BT)
            yield nats_BT
        model.train()

    def _evaluation(self, scored: Iterable[Tensor]) -> Evaluation:
        """What the nats of this rank's targets, and those of others, come to."""
        nats = sum((nats_BT.sum().cpu() for nats_BT in scored), torch.zeros((), dtype=torch.float64))
        total = float(self.ranks.sum(nats))
        bits = total / math.log(2) / self.n_bytes if self.n_bytes else None
        return Evaluation(loss=total / self.n_tokens, bits_per_byte=bits)
