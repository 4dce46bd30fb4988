"""Gradients at initialization by depth, after arXiv:2002.04745, sections 3.3 and 3.4.

Of initial weights, drawn anew from the run's settings and seed, and of no trained ones: the Frobenius norm of the
gradient of the last matrix of a feed-forward branch, the gradient being averaged over the first 1,024 tokens of the
run's batches before the norm is taken, without dropout. ``first`` and ``last``: of the first and the last layer;
``last_over_first``: their ratio. ``last_d6``, ``last_d12``, ``last_d24``, ``last_d48``, ``last_d96``: of the last
layer where the model has so many layers of the same width; ``slope``: d log(last) / d log(depth), by least squares
over these. For weights of one scale at all depths the theory has 0 with post-norm and -1/2 with pre-norm; an
initialization that makes branches smaller with depth takes the difference away.

``growth_activations``, ``growth_gradients``: by how much a layer of the run's own model makes the mean vector
longer, ln(norm(v') / norm(v)) / L, as in arXiv:2501.00656 and ``lab.training.layer_stats``, over the same tokens.

Depths at which the choices do not go together are left out; so is everything where layers share their weights.
"""

import math
from contextlib import suppress
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from lab.config import RunConfig
from lab.errors import ConfigError
from lab.measure._text import tokens_of
from lab.model.feed_forward import FeedForward, GatedFeedForward
from lab.model.loss import token_loss
from lab.model.transformer import Transformer
from lab.training.layer_stats import probe
from lab.training.load import Loaded
from lab.training.plan import batches_of

DEPTHS = (6, 12, 24, 48, 96)

TOKENS = 1024
"""Over which the gradient is averaged, or at least two sequences."""

AT_ONCE = 512
"""Tokens of sequences that are computed at once, or one sequence."""


def measure(loaded: Loaded) -> dict[str, float]:
    """Take it."""
    config = loaded.config
    if config.model.layers_shared > 1:
        return {}
    x_BT, y_BT = sequences(loaded)
    vocab_size = loaded.model.embedding.weight.shape[0]
    model = initial(config, vocab_size)
    norms = norms_by_layer(model, x_BT, y_BT)
    values = {
        "first": norms[0],
        "last": norms[-1],
        "last_over_first": norms[-1] / norms[0] if norms[0] else math.inf,
    }
    looked = probe(model, x_BT, y_BT)
    for key, name in (("growth_exponent", "activations"), ("growth_exponent_gradient", "gradients")):
        if looked[key] is not None:
            values[f"growth_{name}"] = looked[key]
    by_depth: dict[int, float] = {}
    for depth in DEPTHS:
        with suppress(ConfigError):
            deep = replace(config, model=replace(config.model, n_layers=depth, aspect=None))
            by_depth[depth] = norms_by_layer(initial(deep, vocab_size), x_BT, y_BT)[-1]
    values |= {f"last_d{depth}": norm for depth, norm in by_depth.items()}
    if len(by_depth) > 1 and all(0 < norm < math.inf for norm in by_depth.values()):
        values["slope"] = float(np.polyfit(np.log([*by_depth]), np.log([*by_depth.values()]), 1)[0])
    return values


def sequences(loaded: Loaded) -> tuple[Tensor, Tensor]:
    """The first inputs and targets of the run's batches."""
    config = loaded.config
    batches, rows = batches_of(config, tokens_of(loaded)), max(2, TOKENS // config.model.max_seq_len)
    taken = [batches.at(step) for step in range(-(-rows // config.train.batch_size))]
    x_BT, y_BT = (np.concatenate(arrays)[:rows] for arrays in zip(*taken, strict=True))
    device = config.device.value
    return torch.from_numpy(x_BT).to(device), torch.from_numpy(y_BT).to(device)


def initial(config: RunConfig, vocab_size: int) -> Transformer:
    """The model before its first step, in evaluation mode.

    Raises:
        ConfigError: its sizes do not go together.
    """
    model = config.architecture(vocab_size).build(study_seed=config.study_seed, seed=config.seed)
    return model.to(config.device.value).eval()


def norms_by_layer(model: Transformer, x_BT: Tensor, y_BT: Tensor) -> list[float]:
    """The norm of the gradient of each layer's last feed-forward matrix; sequences are taken a few at a time."""
    matrices = [cast(FeedForward | GatedFeedForward, block.ffn).out.weight for block in model.layers()]
    total = [torch.zeros_like(matrix) for matrix in matrices]
    n_tokens = int((y_BT >= 0).sum())
    rows = max(1, AT_ONCE // x_BT.shape[1])
    for first in range(0, len(x_BT), rows):
        x, y = x_BT[first : first + rows], y_BT[first : first + rows]
        loss = token_loss(model, model(x)[0], y, denominator=n_tokens).objective
        for sum_, grad in zip(total, torch.autograd.grad(loss, matrices), strict=True):
            sum_ += grad
    return [float(sum_.double().norm()) for sum_ in total]
