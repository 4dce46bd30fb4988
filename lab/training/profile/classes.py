"""Classes of work, and to which an operator belongs: by its name and by the part of the step that it ran in.

A backward operator belongs to the part whose forward made its node of the graph. The idea of classes is that of
arXiv:2007.00072, table 1: tensor contractions, normalisations, element-wise operators; here finer.
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch._C._profiler import _RecordFunctionFast

from lab.model import layers
from lab.model.attn import Attention

PRODUCTS = "matrix products"
ATTENTION = "attention"
NORMS = "norms"
ELEMENTWISE = "element-wise"
LOSS = "cross-entropy"
OPTIMIZER = "optimizer"
DATA = "data"
LOGGING = "logging"
OTHER = "other"

CLASSES = {
    PRODUCTS: "of the linear maps and the head, with their backward",
    ATTENTION: "scores, softmax, weighted sums, positions, and what moves heads about",
    NORMS: "all norms",
    ELEMENTWISE: "activation, residual stream, embedding, casts, copies, sums of gradients",
    LOSS: "softmax and its gradient, without the products of the head",
    OPTIMIZER: "with the clipping of gradients",
    DATA: "the batch",
    LOGGING: "metrics to their files",
    OTHER: "between operators: Python, autograd",
}
"""Each class with what it holds."""

MARK = "lab."
"""What the names of parts begin with among a profiler's events."""

OF_SCOPE = {
    "data": DATA,
    "logging": LOGGING,
    "clip": OPTIMIZER,
    "optimizer": OPTIMIZER,
    "norm": NORMS,
}
"""Parts of which everything is of one class, products too."""

MAPS = {"mm", "addmm", "addmm_", "_scaled_mm", "mkldnn_linear", "_addmm_activation"}
BATCHED = {"bmm", "baddbmm", "baddbmm_"}
AROUND_PRODUCTS = {"linear", "matmul", "MmBackward0", "AddmmBackward0", "BmmBackward0", "BaddbmmBackward0"}
VIEWS = {
    *("view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "t", "transpose", "permute", "expand"),
    *("select", "slice", "squeeze", "unsqueeze", "detach", "alias", "resolve_conj", "split", "unbind", "flatten"),
    *("TBackward0", "ViewBackward0", "UnsafeViewBackward0", "TransposeBackward0"),
}
"""Operators that compute nothing: they count as what contains them."""


def contracts(op: str) -> bool:
    """Whether an operator is a product of matrices, or attention's two in one kernel."""
    return op in MAPS or op in BATCHED or "scaled_dot_product" in op or "flex_attention" in op


NORM_MODULES = (
    layers.RMSNorm,
    layers.RMSNorm1p,
    layers.RMSNormPlain,
    layers.LayerNorm,
    layers.LayerNorm1p,
    layers.LayerNormNoBias,
    layers.LayerNormPlain,
)


def classify(op: str, scope: str | None, inside: str | None = None) -> str:
    """The class of an operator.

    Args:
        op: its name, without namespace and overload.
        scope: the innermost part of the step that it ran in, or whose backward it is.
        inside: the class of the operator that called it.
    """
    if scope in OF_SCOPE:
        return OF_SCOPE[scope]
    if op in MAPS or (op in BATCHED and scope != "attention"):
        return PRODUCTS
    if inside is not None and op in VIEWS:
        return inside
    if scope == "attention":
        return ATTENTION
    if scope == "loss":
        return LOSS
    if op in AROUND_PRODUCTS or op == f"{MARK}linear":
        return PRODUCTS
    return OTHER if op.startswith(MARK) else ELEMENTWISE


class Scopes:
    """Which part of a step the program is in, and which one every node of autograd's graph was made in."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self._since: list[int] = [0]
        self._part: list[str | None] = [None]

    @property
    def now(self) -> str | None:
        """The innermost part."""
        return self.stack[-1] if self.stack else None

    @contextmanager
    def open(self, name: str) -> Iterator[None]:
        """Be in a part; a profiler sees it too."""
        with _RecordFunctionFast(MARK + name):  # the public one takes ten times as long
            self.stack.append(name)
            self._note()
            try:
                yield
            finally:
                self.stack.pop()
                self._note()

    def made_in(self, sequence_number: int) -> str | None:
        """The part in which the node of this number was made."""
        return self._part[bisect_right(self._since, sequence_number) - 1]

    def _note(self) -> None:
        self._since.append(torch._C._autograd._get_sequence_nr())
        self._part.append(self.now)


@contextmanager
def modules_in(model: nn.Module, norms: tuple[type, ...], scopes: Scopes) -> Iterator[None]:
    """Have the forward of norms, attentions and linear maps be parts.

    Args:
        model: all of it.
        norms: classes of norms beside those that several components are made of.
        scopes: what they are parts of.
    """
    open_now: list[AbstractContextManager[None]] = []

    def begin(name: str, *_: Any) -> None:
        open_now.append(scopes.open(name))
        open_now[-1].__enter__()

    def end(*_: Any) -> None:
        open_now.pop().__exit__(None, None, None)

    with ExitStack() as stack:
        for module in model.modules():
            name = _scope(module, norms)
            if name is not None:
                stack.callback(module.register_forward_pre_hook(partial(begin, name)).remove)
                stack.callback(module.register_forward_hook(end, always_call=True).remove)
        yield


def _scope(module: nn.Module, norms: tuple[type, ...]) -> str | None:
    if isinstance(module, (*NORM_MODULES, *norms)) and not isinstance(module, nn.Identity):
        return "norm"
    if isinstance(module, Attention):
        return "attention"
    return "linear" if isinstance(module, layers.Linear) else None
