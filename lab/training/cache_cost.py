"""What a KV cache costs and saves: bytes by the formula and in memory, tokens per second with it and without."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice

import torch
from torch import Tensor

from lab.config import RunConfig
from lab.model.sizes import Dims
from lab.model.transformer import Architecture, Transformer
from lab.training.generate import last_logits
from lab.training.peak_memory import LiveTensors
from lab.training.precision import compute_in

ELEMENT_BYTES = 2
"""Caches are counted in bf16."""

STEPS = 32
"""Most tokens that are decoded for a measurement, at the end of the context."""

LEAST_STEPS, LEAST_S, MOST_S = 30, 0.3, 10.0
"""A measurement is repeated for so many steps and so long, but begins no more after the last of these."""


@dataclass(frozen=True)
class Pace:
    """Of one kind of step, over all its repetitions."""

    tokens_per_s: float
    """By the median time."""
    quartiles: tuple[float, float]
    """The same by the upper and the lower quartile of the times."""
    steps: int
    """How many were timed."""


@dataclass(frozen=True)
class Speed:
    """Of all sequences of a batch together."""

    prefill: Pace
    """All T tokens in one forward that fills a cache."""
    decode: Pace
    """The last tokens before T, one at a time from a cache."""
    uncached: Pace | None
    """The same tokens by a forward over everything before each; None where it was not asked for."""
    decode_ms: dict[str, float]
    """Time of a step from a cache that half of them keep, ``p50``, and 95 %, ``p95``."""


def cache_bytes(model: Transformer, n_tokens: int) -> float:
    """Bytes per token and layer by the formula of each attention: a layer's window holds no more than its width."""
    layers = model.attention()
    return sum(a.cache_bytes(n_tokens, element_bytes=ELEMENT_BYTES) for a in layers) / (n_tokens * len(layers))


def mha_bytes(dims: Dims) -> int:
    """2 N H numbers per token and layer, what MHA of these heads takes: arXiv:2405.04434, table 1."""
    return 2 * dims.n_heads * dims.head_dim * ELEMENT_BYTES


def build(config: RunConfig, architecture: Architecture) -> Transformer:
    """The model to be measured, on its device with its initial weights."""
    assert config.threads is not None
    torch.set_num_threads(config.threads)
    model = architecture.build(study_seed=config.study_seed, seed=config.seed)
    return model.to(config.device.value).eval()


@torch.no_grad()
def measured_bytes(model: Transformer, n_tokens: int, *, batch: int = 1) -> float:
    """Bytes per token and layer of the tensors in a cache after so many tokens; the model is cast to bf16."""
    caches = model.bfloat16().new_caches()
    model(_ids(model, batch, n_tokens), caches)
    return _held_bytes(caches) / (batch * n_tokens * len(caches))


def peak_bytes(model: Transformer, n_tokens: int, precision: str, *, batch: int = 1) -> int:
    """The most that weights, cache and work take at once while the last token is decoded.

    On a GPU it is what PyTorch's allocator gave out, elsewhere the sum of all tensors.
    """
    ids_BT, device = _ids(model, batch, n_tokens), model.embedding.weight.device.type
    with compute_in(precision, device):
        caches, last = model.new_caches(), n_tokens - 1
        last_logits(model, ids_BT[:, :last], caches, 0)
        step = partial(last_logits, model, ids_BT[:, last:], caches, last)
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            step()
            return int(torch.cuda.max_memory_allocated())
        live = LiveTensors((*model.parameters(), *model.buffers(), *_tensors(caches)))
        with live:
            step()
        return live.most


def measure_speed(
    model: Transformer,
    n_tokens: int,
    precision: str,
    *,
    batch: int = 1,
    prompt: int | None = None,
    without: bool = True,
) -> Speed:
    """Tokens per second of a model at a length of context.

    Args:
        model: on its device.
        n_tokens: length of the context.
        precision: of the computation.
        batch: sequences at once.
        prompt: tokens before the first that is decoded; None: all but ``decoded_steps``.
        without: whether decoding without a cache is measured too.
    """
    ids_BT = _ids(model, batch, n_tokens)
    first = n_tokens - decoded_steps(n_tokens) if prompt is None else prompt

    def prefill() -> Iterator[float]:
        yield _seconds(partial(last_logits, model, ids_BT, model.new_caches(), 0))

    def decode() -> Iterator[float]:
        caches = model.new_caches()
        last_logits(model, ids_BT[:, :first], caches, 0)
        for done in range(first, n_tokens):
            yield _seconds(partial(last_logits, model, ids_BT[:, done : done + 1], caches, done))

    def uncached() -> Iterator[float]:
        yield _seconds(partial(last_logits, model, ids_BT[:, : (first + n_tokens) // 2], None, 0))

    with compute_in(precision, model.embedding.weight.device.type):
        prefilled, decoded = _repeated(prefill), _repeated(decode)
        computed = _repeated(uncached) if without else None
    return Speed(
        prefill=_pace(batch * n_tokens, prefilled),
        decode=_pace(batch, decoded),
        uncached=None if computed is None else _pace(batch, computed),
        decode_ms={
            "p50": 1000 * statistics.median(decoded),
            "p95": 1000 * sorted(decoded)[math.ceil(0.95 * len(decoded)) - 1],
        },
    )


def decoded_steps(n_tokens: int) -> int:
    """How many tokens at the end of a context are decoded one at a time."""
    return min(STEPS, n_tokens // 2)


def _pace(n_tokens: int, seconds: list[float]) -> Pace:
    low, median, high = statistics.quantiles(seconds, method="inclusive") if seconds[1:] else 3 * seconds
    return Pace(tokens_per_s=n_tokens / median, quartiles=(n_tokens / high, n_tokens / low), steps=len(seconds))


def _repeated(measurement: Callable[[], Iterator[float]]) -> list[float]:
    """Seconds of all repetitions, after a beginning of one that warms up."""
    list(islice(measurement(), 2))
    seconds: list[float] = []
    start = time.perf_counter()
    while (spent := time.perf_counter() - start) < MOST_S and (len(seconds) < LEAST_STEPS or spent < LEAST_S):
        seconds += measurement()
    return seconds


def _seconds(work: Callable[[], Tensor]) -> float:
    """How long work takes whose outcome arrives on the CPU."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _ids(model: Transformer, batch: int, n_tokens: int) -> Tensor:
    weight = model.embedding.weight
    ids_BT = torch.randint(weight.shape[0], (batch, n_tokens), generator=torch.Generator().manual_seed(0))
    return ids_BT.to(weight.device)


def _held_bytes(caches: object) -> int:
    found = {id(tensor): tensor.nbytes for tensor in _tensors(caches)}  # layers may share one
    return sum(found.values())


def _tensors(thing: object) -> Iterator[Tensor]:
    """The tensors inside a cache, whatever it is made of."""
    if isinstance(thing, Tensor):
        yield thing
        return
    inner: object = ()
    if isinstance(thing, list | tuple):
        inner = thing
    elif isinstance(thing, dict):
        inner = thing.values()
    else:
        with suppress(TypeError):  # a number has no attributes
            inner = vars(thing).values()
    for part in inner:  # type: ignore[attr-defined]
        yield from _tensors(part)
