"""Gradients added up over ranks, bucket by bucket while the backward pass goes on.

As PyTorch's DistributedDataParallel does it, with two differences: it takes the sum, since each rank's loss is its
part of the batch's, and buckets stay as they are. That wrapper lays them out anew after its first step, so that a
resumed run of three ranks would differ by roundings from one that was not stopped.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import Parameter

BUCKET_BYTES = 25 << 20
"""Gradients that are sent together, about."""


@contextmanager
def summed(model: nn.Module) -> Iterator[None]:
    """A context for a backward pass at whose end gradients, those of earlier passes included, are summed."""
    waiting = deque(_buckets(model))
    sent: list[_Bucket] = []
    bucket_of = {parameter: bucket for bucket in waiting for parameter in bucket.parameters}

    def ready(parameter: Tensor) -> None:
        bucket_of[parameter].missing -= 1  # type: ignore[index]
        while waiting and not waiting[0].missing:  # in the same order on every rank
            sent.append(waiting.popleft().send())

    hooks = [p.register_post_accumulate_grad_hook(ready) for p in bucket_of]  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    for bucket in (*sent, *(bucket.send() for bucket in waiting)):
        bucket.receive()


class _Bucket:
    """Parameters whose gradients travel together."""

    def __init__(self, parameters: list[Parameter]) -> None:
        self.parameters = parameters
        self.missing = len(parameters)
        """How many of the gradients are not known yet."""

    def send(self) -> "_Bucket":
        """Begin to add up over ranks; a parameter without a gradient has none on any rank."""
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.parameters]
        self._flat = torch.cat([grad.reshape(-1) for grad in grads])
        self._work = dist.all_reduce(self._flat, async_op=True)
        return self

    def receive(self) -> None:
        """Put the sums in place."""
        self._work.wait()
        parts = torch.split(self._flat, [p.numel() for p in self.parameters])
        for parameter, grad in zip(self.parameters, parts, strict=True):
            if parameter.grad is not None:
                parameter.grad = grad.view_as(parameter)


def _buckets(model: nn.Module) -> list[_Bucket]:
    """Buckets in about the order in which a backward pass fills them."""
    parts: list[list[Parameter]] = [[]]
    size = 0
    for parameter in reversed([p for p in model.parameters() if p.requires_grad]):
        if size >= BUCKET_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(parameter)
        size += parameter.nbytes
    return [_Bucket(part) for part in parts]
