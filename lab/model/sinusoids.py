"""Sines and cosines of positions at geometrically falling frequencies: arXiv:1706.03762, section 3.5.

Frequency p of width D is 10000^(-2p/D), as in the paper and in Marian; tensor2tensor and fairseq have
10000^(-p/(D/2 - 1)), so that the last one is 1/10000. An odd D has one sine more than cosines.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def _interleaved(sin_TP: Tensor, cos_TP: Tensor, dim: int) -> Tensor:
    return torch.stack((sin_TP, cos_TP), dim=-1).flatten(-2)[:, :dim]


def _half(sin_TP: Tensor, cos_TP: Tensor, dim: int) -> Tensor:
    return torch.cat((sin_TP, cos_TP), dim=-1)[:, :dim]


LAYOUTS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {"interleaved": _interleaved, "half": _half}
"""How sines and cosines share a row: in turn, as in the paper, or all sines first, as in most code."""


class Sinusoids(nn.Module):
    """Rows of sines and cosines, kept up to a length and computed beyond it, in fp32."""

    def __init__(self, length: int, dim: int, *, layout: str) -> None:
        super().__init__()
        self.dim, self.join = dim, LAYOUTS[layout]
        self.rows_TD: Tensor
        rows_TD = self._rows(torch.arange(length, device="cpu"))  # on meta it would load dynamo
        self.register_buffer("rows_TD", rows_TD, persistent=False)

    def _rows(self, pos_T: Tensor) -> Tensor:
        evens = torch.arange(0, self.dim, 2, dtype=torch.float32, device=pos_T.device)
        angle_TP = pos_T.float()[:, None] / torch.pow(10000.0, evens / self.dim)
        return self.join(angle_TP.sin(), angle_TP.cos(), self.dim)

    def forward(self, start: int, stop: int) -> Tensor:
        """Rows of the positions from ``start`` up to ``stop``."""
        if stop <= self.rows_TD.shape[0]:
            return self.rows_TD[start:stop]
        return self._rows(torch.arange(start, stop, device=self.rows_TD.device))
