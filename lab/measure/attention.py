"""Where the trained model looks: logits, entropy, the first token.

Over 16 windows of the validation text, evenly spread. ``max_logit``: the largest logit that enters a softmax, with
scale, position and caps, of all layers; ``max_logit_first``: of the first layer, as in arXiv:2309.14322, section
3.1. ``entropy``: -sum A ln A over the keys, in nats, mean over layers, heads and queries: arXiv:2303.06296; left
out where weights are something else than a softmax over the keys. ``first_token``: the weight A of the window's
first token, mean over layers, heads and the first 64 queries. ``sink_rate``: share of windows, layers and heads in
which that mean over queries is above 0.3: arXiv:2410.10781, section 3, which takes sequences of 64 tokens. Layers
whose attention is no weighing of all keys that the mask shows are left out.
"""

import statistics
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lab.measure._text import few, tokens_of
from lab.model.softmax_attention import SoftmaxAttention
from lab.training.layer_stats import entropies, scores_of, watched
from lab.training.load import Loaded

QUERIES = 64
"""Those whose look at the first token counts."""

SINK = 0.3
"""Mean weight of the first token from which on it is a sink."""

ROWS = 2
"""Windows at once."""


@dataclass
class Layer:
    """What was seen of one."""

    top: list[float] = field(default_factory=list)
    entropy: list[float] = field(default_factory=list)
    """Mean over a batch."""
    first: list[float] = field(default_factory=list)
    """Mean weight of the first token, by window and head."""


@torch.no_grad()
def measure(loaded: Loaded) -> dict[str, float]:
    """Take it."""
    x_WT, _ = few(tokens_of(loaded).val, loaded.config.model.max_seq_len)
    blocks = dict.fromkeys(loaded.model.layers())
    attentions = [block.attn for block in blocks]
    seen = {attn: Layer() for attn in attentions if isinstance(attn, SoftmaxAttention) and not attn.selects}
    with ExitStack() as stack:
        for attn, layer in seen.items():
            stack.enter_context(watched(attn, partial(_look, attn, layer)))
        for x_BT in torch.split(x_WT, ROWS):
            loaded.model(x_BT.to(loaded.model.embedding.weight.device))
    layers = [layer for layer in seen.values() if layer.top]
    if not layers:
        return {}
    values = {
        "max_logit": max(max(layer.top) for layer in layers),
        "first_token": statistics.fmean(statistics.fmean(layer.first) for layer in layers),
        "sink_rate": statistics.fmean(statistics.fmean(mean > SINK for mean in layer.first) for layer in layers),
    }
    first = attentions[0]
    if isinstance(first, SoftmaxAttention) and first in seen:
        values["max_logit_first"] = max(seen[first].top)
    soft = [statistics.fmean(layer.entropy) for layer in layers if layer.entropy]
    return values | ({"entropy": statistics.fmean(soft)} if soft else {})


def _look(
    attn: SoftmaxAttention,
    layer: Layer,
    q_BTNH: Tensor,
    k_BSKH: Tensor,
    _: Tensor,
    pos_T: range,
    pos_S: Any,
    bias: Tensor | None,
) -> None:
    """Note what a batch comes to."""
    scores_BNTS = scores_of(attn, q_BTNH, k_BSKH, pos_T, pos_S, bias)
    layer.top.append(float(scores_BNTS.max()))
    if not attn.own_weights:
        layer.entropy.append(float(entropies(scores_BNTS).mean()))
    weights_BNTS = attn.weigh(scores_BNTS[:, :, :QUERIES])
    layer.first += weights_BNTS[..., 0].mean(dim=-1).flatten().tolist()
