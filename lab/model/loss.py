"""Next-token cross-entropy without the logits: head and loss together, one chunk of tokens at a time.

The full logits of a batch and their gradient are the largest tensors of a small model. Here the head is applied to
a chunk of tokens, the gradient of its logits is written over them in closed form, and both products of the head's
backward follow at once. Penalties on the logits (z-loss and its kin) are functions of ``LogitStats`` and share the
path. Equal to the plain loss in value and gradient.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lab.model.logit_stats import LogitStats
from lab.model.transformer import Transformer

CHUNK_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 26, "mps": 1 << 24}
"""Logits held at once by kind of device: what a CPU's cache likes, what fills a GPU."""

CHUNK_ROWS = 256
"""Tokens of a chunk at the least, however large the vocabulary: products with fewer rows are slow."""


def chunk_rows(device: str, vocab_size: int) -> int:
    """Tokens whose logits are held at once on a kind of device."""
    return max(CHUNK_ROWS, CHUNK_ELEMENTS[device] // vocab_size)


class Objective:
    """What a model adds to cross-entropy, and does to its logits."""

    def __init__(self, model: Transformer) -> None:
        self._stability, self._regularization = model.stability, model.regularization
        self.logits = model.stability.logits
        self.changes_logits = model.stability.changes_logits
        self.needs_mean_logit = model.stability.needs_mean_logit or model.regularization.needs_mean_logit
        self.needs_mean_lse = model.stability.needs_mean_lse

    def per_token(self, nats_C: Tensor, stats: LogitStats) -> Tensor:
        """What is minimised, of each token."""
        total_C = self._regularization.loss(nats_C, stats)
        penalty_C = self._stability.loss(stats)
        return total_C if penalty_C is None else total_C + penalty_C


class TokenLoss(NamedTuple):
    """What the loss of a batch of tokens comes to."""

    objective: Tensor
    """What is minimised, summed over tokens and divided by ``denominator``: differentiable."""
    nats: Tensor
    """Cross-entropy summed over tokens, in nats, without any penalty or smoothing; no gradient."""


def token_loss(
    model: Transformer,
    x_BTD: Tensor,
    target_BT: Tensor,
    *,
    denominator: int,
    together: Callable[[Tensor], Tensor] | None = None,
) -> TokenLoss:
    """Loss of the targets given the vectors that enter the head; targets of -1 are left out.

    The gradient is computed at once, used or not: ``token_nats`` gives the cross-entropy alone for less.
    ``together`` takes the mean of a number over the processes that compute these sequences at once; None: one does.
    """
    x_MD, weight_VD = _head_input(model, x_BTD)
    args = (x_MD, weight_VD, model.head_bias, target_BT.flatten(), Objective(model), denominator, together)
    objective, nats = _ChunkedLoss.apply(*args)  # type: ignore[no-untyped-call]
    return TokenLoss(objective, nats)


@torch.no_grad()
def token_nats(model: Transformer, x_BTD: Tensor, target_BT: Tensor) -> Tensor:
    """Cross-entropy of each target, (B, T), in nats, without any penalty or smoothing; 0 for targets of -1."""
    x_MD, weight_VD = _head_input(model, x_BTD)
    target_M = target_BT.flatten()
    wide = torch.promote_types(x_MD.dtype, torch.float32)
    rows = min(chunk_rows(x_MD.device.type, len(weight_VD)), len(x_MD))
    nats_M = torch.empty(len(x_MD), dtype=wide, device=x_MD.device)
    with torch.autocast(x_MD.device.type, enabled=False):
        head = _Head(weight_VD, model.head_bias, x_MD.new_empty(rows, len(weight_VD)))
        for first in range(0, len(x_MD), rows):
            target_C = target_M[first : first + rows]
            z_CV = model.stability.logits(head.logits(x_MD[first : first + rows]))
            stats = LogitStats(z_CV.to(wide), target_C.clamp(min=0), with_mean=False)
            nats_M[first : first + rows] = torch.where(target_C >= 0, stats.lse - stats.target, 0.0)
    return nats_M.view_as(target_BT)


def _head_input(model: Transformer, x_BTD: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens' vectors in a row and the head's weight, in the type of the head's product."""
    x_MD, weight_VD = x_BTD.flatten(0, 1), model.head_weight()
    if torch.is_autocast_enabled(x_MD.device.type):
        dtype = torch.get_autocast_dtype(x_MD.device.type)
        x_MD, weight_VD = x_MD.to(dtype), weight_VD.to(dtype)
    return x_MD, weight_VD


class _ChunkedLoss(torch.autograd.Function):
    """Gradients are computed in ``forward`` and only scaled in ``backward``."""

    @staticmethod
    def forward(
        ctx: Any,
        x_MD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        target_M: Tensor,
        minimised: Objective,
        denominator: int,
        together: Callable[[Tensor], Tensor] | None,
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(x_MD.dtype, torch.float32)
        dx_MD, dweight_VD = torch.empty_like(x_MD), torch.zeros_like(weight_VD, dtype=wide)
        dbias_V = None if bias_V is None else torch.zeros_like(bias_V)
        objective = torch.zeros((), dtype=wide, device=x_MD.device)
        nats = torch.zeros_like(objective)
        rows = chunk_rows(x_MD.device.type, len(weight_VD))
        # One buffer for all chunks: a page that is touched for the first time is slow.
        buffer_CV = x_MD.new_empty(min(rows, len(x_MD)), len(weight_VD))
        with torch.autocast(x_MD.device.type, enabled=False):
            head = _Head(weight_VD, bias_V, buffer_CV)
            batch_lse = _batch_lse(x_MD, target_M, head, minimised) if minimised.needs_mean_lse else None
            if batch_lse is not None and together is not None:
                batch_lse = together(batch_lse)
            for first in range(0, len(x_MD), rows):
                x_CD, target_C = x_MD[first : first + rows], target_M[first : first + rows]
                raw_CV = head.logits(x_CD)
                objective_C, nats_C, draw_CV = chunk_loss(raw_CV, target_C, minimised, denominator, batch_lse)
                objective += objective_C.sum()
                nats += nats_C.sum()
                torch.mm(draw_CV, weight_VD, out=dx_MD[first : first + rows])
                if wide == x_MD.dtype:
                    dweight_VD.addmm_(draw_CV.T, x_CD)
                else:
                    dweight_VD += draw_CV.T @ x_CD
                if dbias_V is not None:
                    dbias_V += draw_CV.sum(dim=0)
        ctx.save_for_backward(dx_MD, dweight_VD.to(weight_VD.dtype), dbias_V)
        ctx.mark_non_differentiable(nats)
        return objective, nats

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        dx_MD, dweight_VD, dbias_V = ctx.saved_tensors
        dbias_V = None if dbias_V is None else dbias_V * grads[0]
        return dx_MD * grads[0], dweight_VD * grads[0], dbias_V, None, None, None, None


class _Head(NamedTuple):
    """The output head, and the room for the logits of one chunk."""

    weight_VD: Tensor
    bias_V: Tensor | None
    buffer_CV: Tensor

    def logits(self, x_CD: Tensor) -> Tensor:
        """The raw logits of a chunk; the next chunk's are written over them."""
        raw_CV = torch.mm(x_CD, self.weight_VD.T, out=self.buffer_CV[: len(x_CD)])
        return raw_CV if self.bias_V is None else raw_CV.add_(self.bias_V)


def _batch_lse(x_MD: Tensor, target_M: Tensor, head: _Head, minimised: Objective) -> Tensor:
    """The mean logsumexp over the counted tokens of all chunks, for a penalty on its square."""
    rows, wide = len(head.buffer_CV), torch.promote_types(x_MD.dtype, torch.float32)
    total = torch.zeros((), dtype=wide, device=x_MD.device)
    for first in range(0, len(x_MD), rows):
        z_CV = minimised.logits(head.logits(x_MD[first : first + rows]))
        lse_C = z_CV.to(wide).logsumexp(dim=-1)
        total += torch.where(target_M[first : first + rows] >= 0, lse_C, 0.0).sum()
    return total / (target_M >= 0).sum().clamp(min=1)


def chunk_loss(
    raw_CV: Tensor, target_C: Tensor, minimised: Objective, denominator: int, batch_lse: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Objective and nats of each token, and the gradient of raw logits, which may be overwritten."""
    hooked = minimised.changes_logits
    leaf_CV = raw_CV.detach().requires_grad_(hooked)
    with torch.enable_grad():
        z_CV = minimised.logits(leaf_CV)
    counted_C = target_C >= 0
    wide = torch.promote_types(raw_CV.dtype, torch.float32)
    with torch.enable_grad():
        stats = LogitStats(
            z_CV.detach().to(wide, copy=hooked),
            target_C.clamp(min=0),
            with_mean=minimised.needs_mean_logit,
            batch_lse=batch_lse,
        )
        nats_C = stats.lse - stats.target
        scaled_C = torch.where(counted_C, minimised.per_token(nats_C, stats) / denominator, 0.0)
        nats_C = torch.where(counted_C, nats_C.detach(), 0.0)
    draw_CV = stats.logit_gradient(scaled_C).to(raw_CV.dtype)
    if hooked:
        (draw_CV,) = torch.autograd.grad(z_CV, leaf_CV, draw_CV)
    return scaled_C.detach(), nats_C, draw_CV
