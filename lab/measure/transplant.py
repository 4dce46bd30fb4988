"""What becomes of the loss when attention logits are made larger: the transplant of arXiv:2309.14322.

Queries and keys of each head are divided by their root mean square and multiplied by the root of kappa, so that no
logit exceeds kappa times the root of the head's width and all grow with kappa; nothing is trained. ``loss_k1``,
``loss_k10``, ``loss_k100``, ``loss_k1000``, ``loss_k10000``: nats per token of 64 windows of the validation text,
evenly spread; ``loss_as_is``: the same with queries and keys as they are. What positions add to the scores, and
caps, come after, as always. Nothing is said of a model of which a layer has no softmax over the keys.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from torch import Tensor

from lab.measure._text import few, nats, tokens_of
from lab.model.attn import Attention
from lab.model.softmax_attention import SoftmaxAttention
from lab.training.layer_stats import watched
from lab.training.load import Loaded

KAPPAS = (1, 10, 100, 1000, 10_000)

WINDOWS = 64


def measure(loaded: Loaded) -> dict[str, float]:
    """Take it."""
    attentions = dict.fromkeys(loaded.model.attention())
    if not all(isinstance(attn, SoftmaxAttention) and not attn.selects for attn in attentions):
        return {}
    x_WT, y_WT = few(tokens_of(loaded).val, loaded.config.model.max_seq_len, WINDOWS)
    count = int((y_WT >= 0).sum())
    values = {"loss_as_is": float(nats(loaded, x_WT, y_WT).sum()) / count}
    for kappa in KAPPAS:
        changed: set[Attention] = set()
        with ExitStack() as stack:
            for attn in attentions:
                assert isinstance(attn, SoftmaxAttention)
                stack.enter_context(watched(attn, partial(_changed, changed, attn, kappa)))
            values[f"loss_k{kappa}"] = float(nats(loaded, x_WT, y_WT).sum()) / count
        if changed != attentions.keys():  # it computes its scores in a way of its own
            return {}
    return values


def _changed(changed: set[Attention], attn: Attention, kappa: float, *args: Any) -> Sequence[Any]:
    changed.add(attn)
    return rescaled(kappa, *args)


def rescaled(kappa: float, q_BTNH: Tensor, k_BSKH: Tensor, *rest: Any) -> Sequence[Any]:
    """Queries and keys with a root mean square of the root of kappa, and what else attention is given."""
    return *(kappa**0.5 * x / x.square().mean(dim=-1, keepdim=True).sqrt() for x in (q_BTNH, k_BSKH)), *rest
