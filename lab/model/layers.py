"""The layers that several components are made of: a linear map, an embedding table, an RMSNorm."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.model.rms_norm import rms_norm


class Linear(nn.Module):
    """``y = x Wᵀ + b``; the weight is left for the ``init`` component to draw, the bias starts at zero."""

    def __init__(self, n_in: int, n_out: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_out, n_in))
        self.bias = nn.Parameter(torch.zeros(n_out)) if bias else None
        self.reparametrize: nn.Module | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Apply the map to the last axis."""
        weight = self.weight if self.reparametrize is None else cast(Tensor, self.reparametrize(self.weight))
        return F.linear(x, weight, self.bias)


class Embedding(nn.Module):
    """A table of rows; the weight is left for the ``init`` component to draw."""

    def __init__(self, n_rows: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_rows, dim))

    def forward(self, ids: Tensor) -> Tensor:
        """Look up rows by number."""
        return F.embedding(ids, self.weight)


class RMSNorm(nn.Module):
    """Divides by the root mean square of the last axis, then multiplies by a learned gain."""

    def __init__(self, dim: int, *, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector, in the gain's precision; the result has the type of ``x``."""
        return rms_norm(x.to(self.gain.dtype), self.gain, self.eps).to(x.dtype)
