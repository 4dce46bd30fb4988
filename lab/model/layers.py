"""The layers that several components are made of: a linear map, an embedding table, RMS and layer norms.

Norms compute in fp32 (fp64 for fp64 parameters or input); the result has the type of the input. A gain stored as
``gain_offset`` is one plus that, so weight decay pulls it to one.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.model.rms_norm import plain_rms_norm, rms_norm


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


class RMSNorm1p(nn.Module):
    """RMSNorm whose gain is stored as its distance from one."""

    def __init__(self, dim: int, *, eps: float) -> None:
        super().__init__()
        self.gain_offset = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector."""
        return rms_norm(x.to(self.gain_offset.dtype), 1 + self.gain_offset, self.eps).to(x.dtype)


class RMSNormPlain(nn.Module):
    """RMSNorm without a gain; ``dim`` is there so that all norms are made alike."""

    def __init__(self, dim: int, *, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector."""
        return plain_rms_norm(_wide(x), self.eps).to(x.dtype)


class LayerNorm(nn.Module):
    """Subtracts the mean and divides by the standard deviation of the last axis, then a learned gain and bias."""

    def __init__(self, dim: int, *, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector."""
        return F.layer_norm(x.to(self.gain.dtype), self.gain.shape, self.gain, self.bias, self.eps).to(x.dtype)


class LayerNorm1p(nn.Module):
    """LayerNorm whose gain is stored as its distance from one."""

    def __init__(self, dim: int, *, eps: float) -> None:
        super().__init__()
        self.gain_offset = nn.Parameter(torch.zeros(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector."""
        gain_D = 1 + self.gain_offset
        return F.layer_norm(x.to(gain_D.dtype), gain_D.shape, gain_D, self.bias, self.eps).to(x.dtype)


class LayerNormNoBias(nn.Module):
    """LayerNorm with a gain only."""

    def __init__(self, dim: int, *, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector."""
        return F.layer_norm(x.to(self.gain.dtype), self.gain.shape, self.gain, None, self.eps).to(x.dtype)


class LayerNormPlain(nn.Module):
    """LayerNorm with neither gain nor bias."""

    def __init__(self, dim: int, *, eps: float) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector."""
        return F.layer_norm(_wide(x), (self.dim,), None, None, self.eps).to(x.dtype)


def _wide(x: Tensor) -> Tensor:
    """In fp32, or in fp64 if it is in fp64 already."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
