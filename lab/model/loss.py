"""Next-token cross-entropy without the logits: head and loss together, one chunk of tokens at a time.

The full logits of a batch and their gradient are the largest tensors of a small model. Here the head is applied
to a chunk of tokens, the gradient of its logits is written over them in closed form, and both products of the
head's backward follow at once. Penalties on the logits (z-loss and its kin) are functions of ``LogitStats`` and
share the path. Equal to the plain loss in value and gradient.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from lab.model.logit_stats import LogitStats
from lab.model.transformer import Transformer

CHUNK_ELEMENTS = 1 << 20
"""Logits held at once; 4 MiB in fp32."""


class TokenLoss(NamedTuple):
    """What the loss of a batch of tokens comes to."""

    objective: Tensor
    """What is minimised, summed over tokens and divided by ``denominator``: differentiable."""
    nats: Tensor
    """Cross-entropy summed over tokens, in nats, without any penalty or smoothing; no gradient."""


def token_loss(model: Transformer, x_BTD: Tensor, target_BT: Tensor, *, denominator: int) -> TokenLoss:
    """Loss of the targets given the vectors that enter the head; targets of -1 are left out."""
    x_MD, target_M = x_BTD.flatten(0, 1), target_BT.flatten()
    weight_VD = model.head_weight()
    if torch.is_autocast_enabled(x_MD.device.type):
        dtype = torch.get_autocast_dtype(x_MD.device.type)
        x_MD, weight_VD = x_MD.to(dtype), weight_VD.to(dtype)
    objective, nats = _ChunkedLoss.apply(x_MD, weight_VD, target_M, model, denominator)  # type: ignore[no-untyped-call]
    return TokenLoss(objective, nats)


class _ChunkedLoss(torch.autograd.Function):
    """Gradients are computed in ``forward`` and only scaled in ``backward``."""

    @staticmethod
    def forward(
        ctx: Any, x_MD: Tensor, weight_VD: Tensor, target_M: Tensor, model: Transformer, denominator: int
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(x_MD.dtype, torch.float32)
        wanted = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        dx_MD = torch.empty_like(x_MD) if wanted else None
        dweight_VD = torch.zeros_like(weight_VD, dtype=wide) if wanted else None
        objective = torch.zeros((), dtype=wide, device=x_MD.device)
        nats = torch.zeros_like(objective)
        rows = max(1, CHUNK_ELEMENTS // weight_VD.shape[0])
        with torch.autocast(x_MD.device.type, enabled=False):
            for first in range(0, x_MD.shape[0], rows):
                chunk = slice(first, first + rows)
                part = _chunk(x_MD[chunk], weight_VD, target_M[chunk], model, wide, denominator, wanted)
                objective += part[0]
                nats += part[1]
                if dx_MD is not None and dweight_VD is not None:
                    torch.mm(part[2], weight_VD, out=dx_MD[chunk])
                    dweight_VD += part[2].T @ x_MD[chunk]
        ctx.save_for_backward(dx_MD, None if dweight_VD is None else dweight_VD.to(weight_VD.dtype))
        ctx.mark_non_differentiable(nats)
        return objective, nats

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        dx_MD, dweight_VD = ctx.saved_tensors
        return dx_MD * grads[0], dweight_VD * grads[0], None, None, None


def _chunk(
    x_CD: Tensor,
    weight_VD: Tensor,
    target_C: Tensor,
    model: Transformer,
    wide: torch.dtype,
    denominator: int,
    wanted: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Objective, nats, and the gradient of the logits by the objective, for one chunk of tokens."""
    raw_CV = x_CD @ weight_VD.T
    hooked = model.stability.changes_logits
    with torch.enable_grad():
        z_CV = model.stability.logits(raw_CV.requires_grad_()) if hooked else raw_CV
    counted_C = target_C >= 0
    safe_C = target_C.clamp(min=0)
    stats_CV = z_CV.detach().to(wide, copy=hooked)
    with torch.enable_grad():
        stats = LogitStats(stats_CV, safe_C)
        nats_C = stats.lse - stats.target
        loss_C = model.regularization.loss(nats_C, stats)
        penalty_C = model.stability.loss(stats)
        total_C = loss_C if penalty_C is None else loss_C + penalty_C
        scaled_C = torch.where(counted_C, total_C / denominator, 0.0)
    nats = torch.where(counted_C, nats_C.detach(), 0.0).sum()
    if not wanted:
        return scaled_C.detach().sum(), nats, stats_CV
    dz_CV = stats.logit_gradient(scaled_C, safe_C).to(x_CD.dtype)
    draw_CV = torch.autograd.grad(z_CV, raw_CV, dz_CV)[0] if hooked else dz_CV
    return scaled_C.detach().sum(), nats, draw_CV
