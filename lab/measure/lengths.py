"""Loss in windows longer than those of training.

``loss_x1``, ``loss_x2``, ``loss_x4``, ``loss_x8``: nats per token of the validation text, in windows of so many
times the training length T that do not overlap, each token scored once; the text stays the same, so the bytes do
too. ``tail_x2``, ``tail_x4``, ``tail_x8``: the same of targets behind more than T tokens of their window, where
training never looked. The model stays as it was trained: a window of attention or YaRN's original length does not
grow. Left out are lengths beyond the end of learned positions, and those that the text does not fill once. Of a
longer text the first 262,144 tokens are taken. ``loss_x1`` is the run's final loss where that says the same.
"""

import torch
from torch import Tensor

from lab.config import Precision
from lab.measure._text import nats, tokens_of, windows
from lab.training.load import Loaded

TIMES = (1, 2, 4, 8)

MOST = 1 << 18
"""Tokens scored at each length at the most."""


def measure(loaded: Loaded) -> dict[str, float]:
    """Take it."""
    tokens, trained = tokens_of(loaded).val[: MOST + 1], loaded.config.model.max_seq_len
    longest = loaded.model.position.longest
    values: dict[str, float] = {}
    for times in TIMES:
        length = times * trained
        if (longest is not None and longest < length) or (times > 1 and len(tokens) <= length):
            continue
        if times == 1 and _is_known(loaded, len(tokens)):
            values["loss_x1"] = loaded.result["final_loss"]
            continue
        x_WT, y_WT = windows(tokens, length)
        nats_WT = nats(loaded, x_WT, y_WT)
        values[f"loss_x{times}"] = _mean(nats_WT, y_WT)
        if times > 1:
            values[f"tail_x{times}"] = _mean(nats_WT[:, trained:], y_WT[:, trained:])
    return values


def _is_known(loaded: Loaded, n_tokens: int) -> bool:
    """Whether the run's final loss is of all these tokens, and was computed in fp32."""
    trained = loaded.result.get("config", {}).get("precision")
    return n_tokens <= MOST and trained == Precision.fp32 and loaded.result.get("final_loss") is not None


def _mean(nats_WT: Tensor, y_WT: Tensor) -> float:
    return float(nats_WT.sum() / torch.count_nonzero(y_WT >= 0))
