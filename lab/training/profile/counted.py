"""What one step computes and holds, counted operator by operator: FLOPs, traffic, products, memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from lab.training.peak_memory import LiveTensors
from lab.training.profile.classes import (
    ATTENTION,
    ELEMENTWISE,
    LOSS,
    NORMS,
    PRODUCTS,
    VIEWS,
    Scopes,
    classify,
    contracts,
)

MOVES = VIEWS | {
    *("copy_", "_to_copy", "clone", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
    *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "full", "full_like", "fill_", "zero_", "arange"),
    *(
        "embedding",
        "gather",
        "scatter_add_",
        "index",
        "index_select",
        "cat",
        "stack",
        "constant_pad_nd",
        "lift_fresh",
    ),
    *("_local_scalar_dense", "set_", "repeat", "select_backward", "slice_backward", "is_pinned", "_pin_memory"),
}
"""Operators without arithmetic."""

PER_ELEMENT = {
    **{"_softmax": 5, "_softmax_backward_data": 4, "gelu": 10, "gelu_backward": 20, "silu": 5, "silu_backward": 8},
    **{"native_layer_norm": 7, "native_layer_norm_backward": 14, "_fused_rms_norm": 5, "_fused_adamw_": 14},
}
"""FLOPs an element of fused operators, roughly; any other operator has one."""

SAVED_IN = {"norm": NORMS, "attention": ATTENTION, "linear": PRODUCTS, "loss": LOSS}
"""By part, the class for whose backward a tensor is kept; else it is element-wise."""


@dataclass(frozen=True)
class Spec:
    """What a tensor is but for its numbers."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Product:
    """A matrix product of the step, to be computed again."""

    op: Callable[..., Any]
    args: tuple[Any, ...]
    """Tensors are given by their ``Spec``."""
    kwargs: dict[str, Any]
    out: Spec
    flops: int


class Watch(LiveTensors):  # type: ignore[no-untyped-call]
    """A context that counts what every operator inside computes, and what is held."""

    def __init__(self, alive: Iterable[Tensor], weights: Iterable[Tensor], scopes: Scopes) -> None:
        self._scopes, self._before_loss = scopes, 0
        super().__init__(alive)
        self.flops: Counter[str] = Counter()
        """By class: products by their shapes, anything else by the number of its elements."""
        self.contractions = 0
        """FLOPs of products, those within attention among them."""
        self.traffic = 0
        """Bytes of what operators read and write."""
        self.products: list[Product] = []
        """Those of the linear maps and the head, in their order."""
        self.loss_bytes = 0
        """The most that the loss added at once to what was held before it."""
        self.saved: dict[int, tuple[str, int]] = {}
        """What is kept for backward, by storage: class and bytes."""
        self._weights = {weight.untyped_storage().data_ptr() for weight in weights}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: object, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator and count."""
        kwargs = kwargs or {}
        made = super().__torch_dispatch__(func, types, args, kwargs)
        name = func._overloadpacket.__name__  # type: ignore[attr-defined]
        node = torch._C._current_autograd_node()
        scope = self._scopes.now
        if node is not None and not node.name().startswith("torch::autograd::AccumulateGrad"):
            scope = self._scopes.made_in(node._sequence_nr())
        group = classify(name, scope)
        flops = operator_flops(name, args, kwargs, made)
        self.flops[group] += flops
        self.contractions += flops if contracts(name) else 0
        if name not in VIEWS:
            self.traffic += sum(t.nbytes for t in tree_leaves((args, kwargs, made)) if isinstance(t, Tensor))
        if group == PRODUCTS and _formula(name) is not None:
            held = _spec(kwargs.get("out", made))
            self.products.append(
                Product(func, _specs(args), {k: _specs(v) for k, v in kwargs.items()}, held, flops)
            )
        return made

    def _born(self, storage: Any) -> None:
        super()._born(storage)
        if "loss" in self._scopes.stack:
            self.loss_bytes = max(self.loss_bytes, self.now - self._before_loss)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part of the step, as ``lab.training.parts`` tells of it."""
        if name == "loss":
            self._before_loss = self.now
        with self._scopes.open(name):
            yield

    def saving(self) -> saved_tensors_hooks:
        """A context in which it is seen what is kept for backward."""

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self._weights:
                group = SAVED_IN.get(self._scopes.now or "", ELEMENTWISE)
                self.saved.setdefault(storage.data_ptr(), (group, storage.nbytes()))
            return tensor

        return saved_tensors_hooks(pack, lambda tensor: tensor)

    def saved_bytes(self) -> Counter[str]:
        """What was kept for backward, by class."""
        found: Counter[str] = Counter()
        for group, size in self.saved.values():
            found[group] += size
        return found


def operator_flops(name: str, args: Any, kwargs: dict[str, Any], made: Any) -> int:
    """FLOPs of an operator: a product's by PyTorch's formula, without what a fused backward computes again."""
    if "scaled_dot_product" in name:
        q, k, v = args[1:4] if name.endswith("_backward") else args[:3]
        rows = q.shape[0] * q.shape[1] * q.shape[2]
        forward: int = 2 * rows * k.shape[2] * (q.shape[3] + v.shape[3])
        return 2 * forward if name.endswith("_backward") else forward
    formula = _formula(name)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=made))
    if name in MOVES:
        return 0
    elements: int = max(map(_elements, (*args, *kwargs.values(), made)), default=0)
    return PER_ELEMENT.get(name, 1) * elements


def _formula(name: str) -> Callable[..., int] | None:
    """PyTorch's formula of an operator, that of ``addmm`` for ``addmm_`` too."""
    found: Callable[..., int] | None = flop_registry.get(getattr(torch.ops.aten, name.removesuffix("_"), None))
    return found


def _elements(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel()
    return sum(map(_elements, value)) if isinstance(value, list | tuple) else 0


def _spec(tensor: Tensor) -> Spec:
    return Spec(tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _specs(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _spec(value)
    return tuple(map(_specs, value)) if isinstance(value, tuple) else value
