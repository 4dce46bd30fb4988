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
from lab.training.generate import next_logits
from lab.training.precision import compute_in

ELEMENT_BYTES = 2
"""Caches are counted in bf16."""

STEPS = 32
"""Most tokens that are decoded for a measurement, at the end of the context."""

LEAST_TIMES, LEAST_S, MOST_S = 3, 0.3, 1.5
"""A measurement is repeated so often and for so long, but begins no more after the last of these."""


@dataclass(frozen=True)
class Speed:
    """Of one sequence, medians."""

    prefill_tokens_per_s: float
    """All T tokens in one forward that fills a cache."""
    decode_tokens_per_s: float
    """The last tokens before T, one at a time from a cache."""
    uncached_tokens_per_s: float
    """The same tokens by a forward over everything before each."""
    decode_ms_p95: float
    """Time of a token from a cache that 95 % of them keep."""


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
def measured_bytes(model: Transformer, n_tokens: int) -> float:
    """Bytes per token and layer of the tensors in a cache after so many tokens; the model is cast to bf16."""
    caches = model.bfloat16().new_caches()
    model(_ids(model, n_tokens), caches)
    found = {id(tensor): tensor.nbytes for tensor in _tensors(caches)}  # layers may share one
    return sum(found.values()) / (n_tokens * len(caches))


def measure_speed(model: Transformer, n_tokens: int, precision: str) -> Speed:
    """Tokens per second of a model at a length of context."""
    ids: list[int] = _ids(model, n_tokens)[0].tolist()
    first = n_tokens - min(STEPS, n_tokens // 2)

    def prefill() -> Iterator[float]:
        yield _seconds(partial(next_logits, model, ids, model.new_caches(), 0))

    def decode() -> Iterator[float]:
        caches = model.new_caches()
        next_logits(model, ids[:first], caches, 0)
        for done in range(first, n_tokens):
            yield _seconds(partial(next_logits, model, ids[done : done + 1], caches, done))

    def uncached() -> Iterator[float]:
        yield _seconds(partial(next_logits, model, ids[: (first + n_tokens) // 2], None, 0))

    with compute_in(precision, model.embedding.weight.device.type):
        prefilled, decoded, computed = (_repeated(kind) for kind in (prefill, decode, uncached))
    return Speed(
        prefill_tokens_per_s=n_tokens / statistics.median(prefilled),
        decode_tokens_per_s=1 / statistics.median(decoded),
        uncached_tokens_per_s=1 / statistics.median(computed),
        decode_ms_p95=1000 * sorted(decoded)[math.ceil(0.95 * len(decoded)) - 1],
    )


def _repeated(measurement: Callable[[], Iterator[float]]) -> list[float]:
    """Seconds of all repetitions, after a beginning of one that warms up."""
    list(islice(measurement(), 2))
    seconds: list[float] = []
    times, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < MOST_S and (times < LEAST_TIMES or spent < LEAST_S):
        seconds += measurement()
        times += 1
    return seconds


def _seconds(work: Callable[[], Tensor]) -> float:
    """How long work takes whose outcome arrives on the CPU."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _ids(model: Transformer, n_tokens: int) -> Tensor:
    weight = model.embedding.weight
    ids_BT = torch.randint(weight.shape[0], (1, n_tokens), generator=torch.Generator().manual_seed(0))
    return ids_BT.to(weight.device)


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
