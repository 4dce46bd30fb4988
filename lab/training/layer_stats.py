"""Statistics of each layer while a run trains: gradients, activations, attention; ``track.layers``.

Gradient norms are those of the step itself, before clipping and over all micro-batches and ranks
(arXiv:2002.04745). The rest comes of the first sequences of the step's batch, passed once more through the model
without dropout, before the update: a look that neither draws noise nor leaves a trace, so that a run with it is the
same bit for bit.

Growth exponents are ln(norm(v') / norm(v)) / L, where v and v' are what leaves the first and the last of L blocks,
averaged over sequences and positions to one vector, or the loss's gradient there: arXiv:2501.00656, which averages
over 50 documents. Here it is the first two sequences of the batch, so that a look costs a fifth of a step; a mean
over fewer holds more of what is not common to all, and is comparable between runs of one lab alone.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from lab.config import RunConfig
from lab.data.batches import Batches
from lab.model.attention_mask import attention_mask
from lab.model.loss import token_loss
from lab.model.softmax_attention import SoftmaxAttention
from lab.model.transformer import Transformer
from lab.runs.metrics import JsonLines, rising_lines
from lab.runs.store import RunFolder
from lab.training.precision import compute_in

ROWS = 2
"""Sequences that are looked at."""

HEAD_TOKENS = 256
"""Tokens, at the most and evenly spread, of which the output's logsumexp is taken."""

Line = dict[str, Any]
"""One step's statistics, as ``layers.jsonl`` holds them."""

Attended = dict[int, list[tuple[Tensor, Tensor | None]]]
"""By layer, for each softmax: the largest logit, and the entropy."""


class LayerStats:
    """What looks at the layers every few steps, from the first."""

    def __init__(self, config: RunConfig) -> None:
        self.config, self.every = config, config.track.layers_every
        self.taken: list[Line] = []
        """Lines of steps that are not yet written."""

    def look(self, model: Transformer, batches: Batches, step: int) -> None:
        """Take the statistics of the update that follows ``step`` others, if it is one to look at."""
        if step % self.every == 0:
            norms = gradient_norms(model)
            x_BT, y_BT = (torch.as_tensor(array[:ROWS]).to(self.config.device.value) for array in batches.at(step))
            with compute_in(self.config.precision, self.config.device):
                self.taken.append({"step": step + 1, "grad_norm": norms, **probe(model, x_BT, y_BT)})

    def until(self, step: int) -> list[Line]:
        """Hand over the lines up to a step."""
        ready = [line for line in self.taken if line["step"] <= step]
        self.taken = self.taken[len(ready) :]
        return ready


def watched_layers(config: RunConfig, folder: RunFolder, step: int) -> tuple[LayerStats | None, JsonLines | None]:
    """What looks at a run's layers from a step on, and its file; nothing where nobody asks for it."""
    if not config.track.layers:
        return None, None
    return LayerStats(config), JsonLines(folder.layers, keep_steps=step, every_step=False)


def layers_summary(config: RunConfig, folder: RunFolder, steps: int) -> dict[str, Any] | None:
    """What ``result.json`` says of the layers; null where they were not looked at.

    The largest attention logit of block 0 over all steps that were looked at, as in arXiv:2309.14322; the rest is
    of the last of them, the entropy a mean over layers.
    """
    lines = [line for line in rising_lines(folder.layers) if line["step"] <= steps] if config.track.layers else []
    if not lines:
        return None
    logits = [line["max_attention_logit"][0] for line in lines if line["max_attention_logit"][0] is not None]
    entropies = [value for value in lines[-1]["attention_entropy"] if value is not None]
    return {
        "step": lines[-1]["step"],
        "max_attention_logit": max(logits, default=None),
        "attention_entropy": statistics.fmean(entropies) if entropies else None,
        **{key: lines[-1][key] for key in ("logsumexp", "growth_exponent", "growth_exponent_gradient")},
    }


def gradient_norms(model: Transformer) -> list[float | None]:
    """The L2 norm of each layer's gradient, null where nothing trains; layers that share weights have one."""
    grads = [[p.grad for p in block.parameters() if p.grad is not None] for block in model.layers()]
    norms = [torch.nn.utils.get_total_norm(own) if own else None for own in grads]
    return _numbers(norms)


def probe(model: Transformer, x_BT: Tensor, y_BT: Tensor) -> Line:
    """All but the norms of gradients; the model is left in training mode, its gradients as they are."""
    blocks: list[Tensor] = []
    attended: Attended = {}
    model.eval()
    try:
        with torch.enable_grad(), ExitStack() as stack:
            for block in dict.fromkeys(model.layers()):
                stack.callback(_keep_output(block, blocks).remove)
                if isinstance(block.attn, SoftmaxAttention):
                    stack.enter_context(watched(block.attn, partial(_attention, block.attn, attended, blocks)))
            hidden_BTD, _ = model.forward(x_BT)  # never compiled
            loss = token_loss(model, hidden_BTD, y_BT, denominator=y_BT.numel()).objective
            first, last = torch.autograd.grad(loss, (blocks[0], blocks[-1]), allow_unused=True)
    finally:
        model.train()
    with torch.no_grad(), torch.autocast(x_BT.device.type, enabled=False):
        found = [attended.get(layer) for layer in range(len(blocks))]
        entropies = [None if each is None or each[0][1] is None else each[0][1] for each in found]
        return {
            "activation_rms": _numbers([x_BTD.float().square().mean().sqrt() for x_BTD in blocks]),
            "max_attention_logit": _numbers([None if each is None else each[0][0] for each in found]),
            "attention_entropy": _numbers(entropies),
            "logsumexp": _numbers([_logsumexp(model, hidden_BTD)])[0],
            "growth_exponent": growth_exponent(blocks[0], blocks[-1], len(blocks)),
            "growth_exponent_gradient": growth_exponent(first, last, len(blocks)),
        }


def growth_exponent(first_BTD: Tensor | None, last_BTD: Tensor | None, n_layers: int) -> float | None:
    """By how much a layer makes the mean vector longer, as a logarithm; null where one is zero or not finite."""
    if first_BTD is None or last_BTD is None:
        return None
    lengths = [float(x_BTD.detach().double().mean(dim=(0, 1)).norm()) for x_BTD in (first_BTD, last_BTD)]
    if not all(math.isfinite(length) and length > 0 for length in lengths):
        return None
    return math.log(lengths[1] / lengths[0]) / n_layers


def _keep_output(block: nn.Module, kept: list[Tensor]) -> RemovableHandle:
    """Keep what leaves a block each time it is used, such that it can be differentiated by."""

    def hook(_: nn.Module, __: object, output: tuple[Tensor, Any]) -> tuple[Tensor, Any]:
        x_BTD, losses = output
        x_BTD = x_BTD if x_BTD.requires_grad else x_BTD.detach().requires_grad_()
        kept.append(x_BTD)
        return x_BTD, losses

    return block.register_forward_hook(hook)


@contextmanager
def watched(attn: SoftmaxAttention, look: Callable[..., Sequence[Any] | None]) -> Iterator[None]:
    """Have ``look`` see what the layer's attention is asked to compute, and perhaps give other arguments for it."""
    attend = attn.attend

    def seen(*args: Any) -> Tensor:
        return attend(*(look(*args) or args))

    attn.attend = seen  # type: ignore
    try:
        yield
    finally:
        del attn.attend


@torch.no_grad()
def _attention(
    attn: SoftmaxAttention,
    found: Attended,
    blocks: Sequence[Tensor],
    q_BTNH: Tensor,
    k_BSKH: Tensor,
    _: Tensor,
    pos_T: range,
    pos_S: Any,
    bias: Tensor | None,
) -> None:
    """Note the largest score that is not hidden, and the mean entropy of the softmax over the keys.

    Weights that are something else than a softmax over the keys have no entropy.
    """
    with torch.autocast(q_BTNH.device.type, enabled=False):
        scores_BNTS = scores_of(attn, q_BTNH, k_BSKH, pos_T, pos_S, bias)
        entropy = None if attn.own_weights else entropies(scores_BNTS).mean()
        found.setdefault(len(blocks), []).append((scores_BNTS.max(), entropy))


def scores_of(
    attn: SoftmaxAttention, q_BTNH: Tensor, k_BSKH: Tensor, pos_T: range, pos_S: Any, bias: Tensor | None
) -> Tensor:
    """What the weights of the keys are made of, (B, N, T, S) in fp32: with bias, caps and mask."""
    k_BSNH = k_BSKH.float().repeat_interleave(q_BTNH.shape[2] // k_BSKH.shape[2], dim=2)
    scores_BNTS = torch.einsum("btnh,bsnh->bnts", q_BTNH.float(), k_BSNH) * attn.scale
    scores_BNTS = scores_BNTS if bias is None else scores_BNTS + bias
    scores_BNTS = attn.stability.scores(scores_BNTS)
    return scores_BNTS + attention_mask(attn.layer.mask, pos_T, pos_S, scores_BNTS)


def entropies(scores_BNTS: Tensor) -> Tensor:
    """Of the softmax over the keys of each query and head, (B, N, T), in nats."""
    log_BNTS = scores_BNTS.log_softmax(dim=-1)
    return -(log_BNTS.exp() * log_BNTS.clamp(min=torch.finfo(torch.float32).min)).sum(-1)


def _logsumexp(model: Transformer, hidden_BTD: Tensor) -> Tensor:
    """The mean logarithm of the output softmax's denominator."""
    x_MD = hidden_BTD.flatten(0, 1)
    x_MD = x_MD[:: math.ceil(len(x_MD) / HEAD_TOKENS)].float()
    z_MV = nn.functional.linear(x_MD, model.head_weight().float(), model.head_bias)
    return model.stability.logits(z_MV).logsumexp(dim=-1).mean()


def _numbers(tensors: Sequence[Tensor | None]) -> list[float | None]:
    """On the CPU; null where there is none, or none that is finite."""
    values = [math.nan if tensor is None else float(tensor) for tensor in tensors]
    return [value if math.isfinite(value) else None for value in values]
