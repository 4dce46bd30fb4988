"""Root mean square norm with a backward of its own where PyTorch has no fused one.

On a CPU ``torch.nn.functional.rms_norm`` is put together from eight operations, which autograd differentiates one
by one; the closed form below gives the same values bit for bit in a quarter of the time (0.7 against 2.9 ms for
2,048 vectors of width 128, forward and backward, one thread).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.model import stacking


def rms_norm(x: Tensor, gain_D: Tensor, eps: float) -> Tensor:
    """G x / sqrt(mean(x²) + eps) over the last axis."""
    if stacking.is_on():  # what has no weights is computed for all models at once
        return plain_rms_norm(x, eps) * gain_D
    if x.device.type == "cpu" and not torch.compiler.is_compiling():  # a compiler fuses the operations itself
        y: Tensor = _RMSNorm.apply(x, gain_D, eps)  # type: ignore[no-untyped-call]
        return y
    return F.rms_norm(x, gain_D.shape, gain_D, eps)


def plain_rms_norm(x: Tensor, eps: float) -> Tensor:
    """X / sqrt(mean(x²) + eps) over the last axis."""
    if stacking.is_on():
        return stacking.apply(_plain, x, eps)
    return _plain(x, eps)


def _plain(x: Tensor, eps: float) -> Tensor:
    if x.device.type == "cpu" and not torch.compiler.is_compiling():
        y: Tensor = _PlainRMSNorm.apply(x, eps)  # type: ignore[no-untyped-call]
        return y
    return F.rms_norm(x, x.shape[-1:], None, eps)


class _RMSNorm(torch.autograd.Function):
    """With r = 1 / sqrt(mean(x²) + eps) and h = x r: dx = r (g dy - h mean(g dy h)), dg = sum(dy h)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain_D: Tensor, eps: float) -> Tensor:
        r = x.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
        ctx.save_for_backward(x, gain_D, r)
        return (x * r).mul_(gain_D)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        (dy,) = grads
        x, gain_D, r = ctx.saved_tensors
        h = x * r
        dyh_MD = (dy * h).flatten(0, -2)
        mean = torch.mv(dyh_MD, gain_D).div_(x.shape[-1]).view_as(r)
        dx = (dy * gain_D).sub_(h.mul_(mean)).mul_(r)
        return dx, dyh_MD.sum(0), None


class _PlainRMSNorm(torch.autograd.Function):
    """As above with g = 1, where y = h: dx = r (dy - h mean(dy h))."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        r = x.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
        h = x * r
        ctx.save_for_backward(h, r)
        return h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (dy,) = grads
        h, r = ctx.saved_tensors
        mean = (dy * h).mean(-1, keepdim=True)
        return (dy - h * mean).mul_(r), None
