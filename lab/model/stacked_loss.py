"""The loss of ``lab.model.loss`` for several models of one shape at once, each with its own head and targets.

Models may differ in what they add to cross-entropy. Those that add the same stand side by side, so that it is
computed once for all of them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lab.model.logit_stats import LogitStats
from lab.model.loss import CHUNK_ELEMENTS, Objective, TokenLoss, chunk_loss, chunk_rows


class Share(NamedTuple):
    """Models, side by side, that minimise the same."""

    minimised: Objective
    first: int
    last: int
    """One after the last of them."""


class Objectives(Objective):
    """What several models add to cross-entropy; logits are changed by all in the same way."""

    def __init__(self, shares: Sequence[Share]) -> None:
        self.shares = tuple(shares)
        one = shares[0].minimised
        self.logits, self.changes_logits = one.logits, one.changes_logits
        self.needs_mean_logit, self.needs_mean_lse = one.needs_mean_logit, one.needs_mean_lse

    def per_token(self, nats_KC: Tensor, stats: LogitStats) -> Tensor:
        """What is minimised, of each token of each model."""
        if len(self.shares) == 1:
            return self.shares[0].minimised.per_token(nats_KC, stats)
        parts = [
            share.minimised.per_token(nats_KC[share.first : share.last], _Part(stats, share.first, share.last))
            for share in self.shares
        ]
        return torch.cat(parts)

    def between(self, first: int, last: int) -> "Objectives":
        """Those of some of the models, counted from the first of them."""
        cut = [Share(own, max(a, first) - first, min(b, last) - first) for own, a, b in self.shares]
        return Objectives([share for share in cut if share.first < share.last])


class _Part(LogitStats):
    """The numbers of some of the models."""

    def __init__(self, whole: LogitStats, first: int, last: int) -> None:
        rows = self._rows = slice(first, last)
        self._whole = whole
        self.lse, self.target = whole.lse[rows], whole.target[rows]
        self.mean = None if whole.mean is None else whole.mean[rows]
        self.batch_lse = None if whole.batch_lse is None else whole.batch_lse[rows]

    def max(self) -> Tensor:
        """Largest logit."""
        return self._whole.max()[self._rows]


def stacked_loss(
    minimised: Objectives,
    x_KBTD: Tensor,
    weight_KVD: Tensor,
    bias_KV: Tensor | None,
    target_KBT: Tensor,
    *,
    denominator: int,
) -> TokenLoss:
    """Loss of each model's targets given the vectors that enter its head, both (K,); targets of -1 are left out."""
    x_KMD = x_KBTD.flatten(1, 2)
    if torch.is_autocast_enabled(x_KMD.device.type):
        dtype = torch.get_autocast_dtype(x_KMD.device.type)
        x_KMD, weight_KVD = x_KMD.to(dtype), weight_KVD.to(dtype)
    args = (x_KMD, weight_KVD, bias_KV, target_KBT.flatten(1), minimised, denominator)
    objective_K, nats_K = _StackedLoss.apply(*args)  # type: ignore[no-untyped-call]
    return TokenLoss(objective_K, nats_K)


class _StackedLoss(torch.autograd.Function):
    """Gradients are computed in ``forward`` and only scaled in ``backward``."""

    @staticmethod
    def forward(
        ctx: Any,
        x_KMD: Tensor,
        weight_KVD: Tensor,
        bias_KV: Tensor | None,
        target_KM: Tensor,
        minimised: Objectives,
        denominator: int,
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(x_KMD.dtype, torch.float32)
        dx_KMD = torch.empty_like(x_KMD)
        dweight_KVD = torch.zeros_like(weight_KVD, dtype=wide)
        dbias_KV = None if bias_KV is None else torch.zeros_like(bias_KV)
        objective_K = torch.zeros(len(x_KMD), dtype=wide, device=x_KMD.device)
        nats_K = torch.zeros_like(objective_K)
        with torch.autocast(x_KMD.device.type, enabled=False):
            head = _Heads(x_KMD, weight_KVD, bias_KV)
            for k in head.groups():
                some, weight = minimised.between(k.start, k.stop), weight_KVD[k]
                lse_K1 = _batch_lse(head, k, target_KM[k], some) if some.needs_mean_lse else None
                for m in head.chunks():
                    raw = head.logits(k, m)
                    objective, nats, draw = chunk_loss(raw, target_KM[k, m], some, denominator, lse_K1)
                    objective_K[k] += objective.sum(-1)
                    nats_K[k] += nats.sum(-1)
                    dx_KMD[k, m] = torch.bmm(draw, weight)
                    dweight_KVD[k] += torch.bmm(draw.mT, x_KMD[k, m])
                    if dbias_KV is not None:
                        dbias_KV[k] += draw.sum(dim=1)
        ctx.save_for_backward(dx_KMD, dweight_KVD.to(weight_KVD.dtype), dbias_KV)
        ctx.mark_non_differentiable(nats_K)
        return objective_K, nats_K

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        dx_KMD, dweight_KVD, dbias_KV = ctx.saved_tensors
        scale_K11 = grads[0][:, None, None]
        dbias_KV = None if dbias_KV is None else dbias_KV * grads[0][:, None]
        return dx_KMD * scale_K11, dweight_KVD * scale_K11, dbias_KV, None, None, None


class _Heads:
    """The output heads, and how many models and tokens have their logits held at once."""

    def __init__(self, x_KMD: Tensor, weight_KVD: Tensor, bias_KV: Tensor | None) -> None:
        self.x_KMD, self.weight_KVD, self.bias_KV = x_KMD, weight_KVD, bias_KV
        device, vocab_size = x_KMD.device.type, weight_KVD.shape[1]
        self.rows = min(chunk_rows(device, vocab_size), x_KMD.shape[1])
        self.models = max(1, min(CHUNK_ELEMENTS[device] // (self.rows * vocab_size), len(x_KMD)))
        self._room = x_KMD.new_empty(self.models * self.rows * vocab_size)

    def groups(self) -> list[slice]:
        """Models of a chunk."""
        n = len(self.x_KMD)
        return [slice(first, min(first + self.models, n)) for first in range(0, n, self.models)]

    def chunks(self) -> list[slice]:
        """Tokens of a chunk."""
        n = self.x_KMD.shape[1]
        return [slice(first, min(first + self.rows, n)) for first in range(0, n, self.rows)]

    def logits(self, k: slice, m: slice) -> Tensor:
        """The raw logits of a chunk; the next chunk's are written over them."""
        x, weight = self.x_KMD[k, m], self.weight_KVD[k]
        shape = len(x), x.shape[1], weight.shape[1]
        raw = torch.bmm(x, weight.mT, out=self._room[: shape[0] * shape[1] * shape[2]].view(shape))
        return raw if self.bias_KV is None else raw.add_(self.bias_KV[k, None])


def _batch_lse(head: _Heads, k: slice, target_KM: Tensor, minimised: Objectives) -> Tensor:
    """Each model's mean logsumexp over its counted tokens, for a penalty on its square."""
    wide = torch.promote_types(head.x_KMD.dtype, torch.float32)
    total_K = torch.zeros(len(target_KM), dtype=wide, device=target_KM.device)
    for m in head.chunks():
        lse = minimised.logits(head.logits(k, m)).to(wide).logsumexp(dim=-1)
        total_K += torch.where(target_KM[:, m] >= 0, lse, 0.0).sum(-1)
    return (total_K / (target_KM >= 0).sum(-1).clamp(min=1))[:, None]
