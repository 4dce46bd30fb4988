"""How large the trained model's activations and logits are.

Over 64 windows of the validation text, evenly spread. ``max_activation``: the largest absolute value in the stream
behind any block. ``mean_log_z``, ``mean_log_z_squared``: of log Z, the logsumexp of the output logits, in nats,
which z-loss holds near 0: arXiv:2204.02311, section 5. ``embedding_rms``: root of the mean square of the entries of
the token embedding.
"""

from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lab.measure._text import few, tokens_of
from lab.training.load import Loaded

WINDOWS = 64

ROWS = 4
"""Windows at once."""


@torch.no_grad()
def measure(loaded: Loaded) -> dict[str, float]:
    """Take it."""
    model = loaded.model
    x_WT, y_WT = few(tokens_of(loaded).val, loaded.config.model.max_seq_len, WINDOWS)
    tops: list[float] = []
    parts: list[Tensor] = []
    with ExitStack() as stack:
        for block in dict.fromkeys(model.layers()):
            stack.callback(block.register_forward_hook(partial(_note, tops)).remove)
        for x_BT, y_BT in zip(torch.split(x_WT, ROWS), torch.split(y_WT, ROWS), strict=True):
            z_BTV = model.logits(x_BT.to(model.embedding.weight.device))
            parts.append(z_BTV.logsumexp(dim=-1).cpu()[y_BT >= 0].double())
    log_z = torch.cat(parts)
    return {
        "max_activation": max(tops),
        "mean_log_z": float(log_z.mean()),
        "mean_log_z_squared": float(log_z.square().mean()),
        "embedding_rms": float(model.embedding.weight.double().square().mean().sqrt()),
    }


def _note(tops: list[float], _: object, __: object, output: tuple[Tensor, Any]) -> None:
    tops.append(float(output[0].abs().max()))
