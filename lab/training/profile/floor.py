"""The floor under a step: its own matrix products alone, with its shapes, strides and types, nothing between them.

Operands lie ready and results are written over each other, so no memory is asked for; operands that look alike are
one tensor, which is the faster for it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lab.training.profile.counted import Product, Spec


class Floor:
    """The products of a step, ready to be computed."""

    def __init__(self, products: Sequence[Product], device: str) -> None:
        self.flops = sum(product.flops for product in products)
        self._device = device
        self._made: dict[tuple[str, Spec], Tensor] = {}
        self._calls = [self._call(product) for product in products]

    @torch.no_grad()
    def __call__(self) -> None:
        """Compute them in the order of the step."""
        for call in self._calls:
            call()

    def _call(self, product: Product) -> Callable[[], Any]:
        args = [self._tensors(value, str(place)) for place, value in enumerate(product.args)]
        kwargs = {key: self._tensors(value, key) for key, value in product.kwargs.items()}
        op: Any = product.op
        if op._overloadname == "default" and "out" in op._overloadpacket.overloads():
            op, kwargs["out"] = op._overloadpacket.out, self._tensors(product.out, "out")
        return partial(op, *args, **kwargs)

    def _tensors(self, value: Any, place: str) -> Any:
        """A tensor for each ``Spec``; operands of one product are never the same one."""
        if isinstance(value, tuple):
            return tuple(self._tensors(part, place) for part in value)
        if not isinstance(value, Spec):
            return value
        if (place, value) not in self._made:
            made = torch.empty_strided(value.shape, value.stride, dtype=value.dtype, device=self._device)
            self._made[place, value] = made.uniform_(-0.1, 0.1) if value.dtype.is_floating_point else made.zero_()
        return self._made[place, value]
