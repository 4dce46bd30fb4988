"""The precision of matrix products; weights, norms' inputs, the residual stream and losses stay fp32."""

from contextlib import AbstractContextManager, nullcontext

import torch


def compute_in(precision: str, device: str) -> AbstractContextManager[object]:
    """A context in which a forward pass computes in ``fp32`` or ``bf16``."""
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device, dtype=torch.bfloat16)
