"""Weights of one model put into another: what is taken as it is, what is converted, what finds no counterpart.

Tensors go by name. Those of keys and values whose number of heads differs are converted. Fewer heads: those that
come to share one are averaged, or the first of them is taken (arXiv:2305.13245, section 2.1; the mean does best).
More heads: each is repeated, which leaves the model the same function.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.config import Pool
from lab.model.attention import DotProductAttention
from lab.model.transformer import Transformer


@dataclass(frozen=True)
class Transfer:
    """What of a model goes into another; names are those of the other one's tensors."""

    tensors: Mapping[str, Tensor]
    """The values that go over, by name."""
    loaded: tuple[str, ...]
    """Taken as they are."""
    converted: tuple[str, ...]
    """Pooled or repeated over heads."""
    fresh: tuple[str, ...]
    """Without a counterpart: they keep the value that they have."""
    reshaped: tuple[str, ...]
    """Those of ``fresh`` that are there in another shape."""
    dropped: tuple[str, ...]
    """Tensors of the source without a counterpart."""

    def apply(self, model: Transformer) -> None:
        """Put the values into the model, on whatever device it is."""
        own = model.state_dict()
        with torch.no_grad():
            for name, value in self.tensors.items():
                own[name].copy_(value)


def transfer(source: Transformer, target: Transformer, pool: Pool) -> Transfer:
    """Match the tensors of two models; ``target`` needs no storage."""
    had, wanted = source.state_dict(), target.state_dict()
    heads_had, heads_wanted = _heads(source), _heads(target)
    tensors: dict[str, Tensor] = {}
    converted, fresh, reshaped = [], [], []
    for name, own in wanted.items():
        value = had.get(name)
        if value is None:
            fresh.append(name)
            continue
        if value.shape != own.shape:
            place = name.partition(".attn.")[0] + ".attn"
            changed = _regrouped(value, heads_had.get(place), heads_wanted.get(place), pool)
            if changed is None or changed.shape != own.shape:
                fresh.append(name)
                reshaped.append(name)
                continue
            value = changed
            converted.append(name)
        tensors[name] = value
    return Transfer(
        tensors=tensors,
        loaded=tuple(name for name in tensors if name not in converted),
        converted=tuple(converted),
        fresh=tuple(fresh),
        reshaped=tuple(reshaped),
        dropped=tuple(name for name in had if name not in wanted),
    )


def _heads(model: Transformer) -> dict[str, DotProductAttention]:
    """The attentions that have key/value heads, by name."""
    return {name: part for name, part in model.named_modules() if isinstance(part, DotProductAttention)}


def _regrouped(
    value: Tensor, had: DotProductAttention | None, wanted: DotProductAttention | None, pool: Pool
) -> Tensor | None:
    """A tensor of all key/value heads for another number of them; None where heads are not all that differs."""
    if had is None or wanted is None or (had.n_heads, had.head_dim) != (wanted.n_heads, wanted.head_dim):
        return None
    before, after = had.n_kv_heads, wanted.n_kv_heads
    if len(value) % before:
        return None
    width, rest = len(value) // before, value.shape[1:]
    if before % after == 0:
        groups = value.view(after, before // after, width, *rest)
        return (groups.mean(dim=1) if pool is Pool.mean else groups[:, 0]).reshape(after * width, *rest)
    if after % before == 0:
        heads = value.view(before, width, *rest)
        return heads.repeat_interleave(after // before, dim=0).view(after * width, *rest)
    return None


def keeps_its_value(name: str) -> bool:
    """Whether a parameter is a gain, bias or scalar, whose module sets it where it does nothing or its usual."""
    return not name.endswith(".weight")


def grouped(names: Iterable[str]) -> dict[str, int]:
    """Names with the numbers of layers taken out, and how many tensors each stands for."""
    return dict(Counter(re.sub(r"\.\d+(?=\.)", ".*", name) for name in names))


def in_words(names: Iterable[str]) -> str:
    """Groups of names for a line, ``blocks.*.attn.k.weight (8), final_norm.gain``; ``none`` for no names."""
    parts = [name if count == 1 else f"{name} ({count})" for name, count in grouped(names).items()]
    return ", ".join(parts) or "none"
