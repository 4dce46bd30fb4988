"""Several models of one shape computed as one: what ``torch.vmap`` cannot do by itself, or not fast.

``torch.vmap`` runs a model's code once over weights and tokens with an axis in front, one entry a model. For an
operation without weights, models are no more than rows of a larger batch: ``apply`` calls one so.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

_on = False


@contextmanager
def stacking() -> Iterator[None]:
    """Within it, a forward pass is that of several models at once."""
    global _on
    _on = True
    try:
        yield
    finally:
        _on = False


def is_on() -> bool:
    """Whether the forward pass is that of several models at once."""
    return _on


def apply(rows: Callable[..., Tensor], *args: Any) -> Tensor:
    """``rows(*args)`` of each model; ``rows`` is given what has the models' axis with that axis in front."""
    y: Tensor = _Rows.apply(rows, *args)  # type: ignore[no-untyped-call]
    return y


class _Rows(torch.autograd.Function):
    """The axis of the models stays in front."""

    @staticmethod
    def forward(rows: Callable[..., Tensor], *args: Any) -> Tensor:
        raise AssertionError("only within torch.vmap")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept: ``vmap`` differentiates by itself."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, rows: Callable[..., Tensor], *args: Any) -> tuple[Tensor, int]:
        moved = [arg if dim is None else arg.movedim(dim, 0) for arg, dim in zip(args, in_dims[1:], strict=True)]
        return rows(*moved), 0
