"""Probes: questions to a trained model whose answers are known, made of nothing foreign.

A probe is one file: the first line of its docstring says what it asks, and its class ``Question`` makes the items.
Questions about text are made of the run's own held-out documents (val and test, never train), the others of random
tokens. Every item is a choice between alternatives that follow one context; the alternative with the largest summed
log-probability is the model's answer, without any correction for length. So the chance level is one in the number
of alternatives, and each probe says how it keeps a scorer that ignores the context from doing better. What others
have published is in ``lab.probe.published``.
"""

import importlib
import pkgutil
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from lab.data.corpus import Document
from lab.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Choice:
    """One item."""

    context: tuple[int, ...]
    """Ids that all alternatives follow, at least one."""
    alternatives: tuple[tuple[int, ...], ...]
    """What may follow; with the context, none is longer than the model's window."""
    answer: int
    """Index of the true one."""


@dataclass(frozen=True)
class Source:
    """What items are made of."""

    tokenizer: Tokenizer
    window: int
    """Tokens that the model reads at once."""
    read: Callable[[], Sequence[Document]]
    """Reads the held-out documents; not called by probes without text."""

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        """The held-out documents."""
        return tuple(self.read())

    def encode(self, *texts: str) -> list[tuple[int, ...]]:
        """The ids of texts."""
        return [tuple(int(i) for i in ids) for ids in self.tokenizer.encode_batch(texts)]


@dataclass(frozen=True)
class Probe(ABC):
    """Base of each probe's ``Question``."""

    source: Source

    @abstractmethod
    def items(self, n: int, rng: np.random.Generator) -> list[Choice]:
        """Make ``n`` items, or as many as the window and the text allow; all with as many alternatives."""


def names() -> list[str]:
    """All probes, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not (m.name.startswith("_") or m.ispkg))


def describe(name: str) -> str:
    """What a probe asks: the first line of its module's docstring."""
    doc = importlib.import_module(f"{__name__}.{name}").__doc__ or ""
    return doc.strip().partition("\n")[0]


def make(name: str, source: Source, *, n: int, seed: int) -> list[Choice]:
    """The items of a probe; the same for the same source, number and seed, whatever else is asked."""
    question = cast(type[Probe], importlib.import_module(f"{__name__}.{name}").Question)
    return question(source).items(n, np.random.default_rng([seed, zlib.crc32(name.encode())]))


def shuffled(context: Sequence[int], alternatives: Sequence[Sequence[int]], rng: np.random.Generator) -> Choice:
    """An item whose first alternative is the true one, put at a random place: ties are then won by chance."""
    order = [int(i) for i in rng.permutation(len(alternatives))]
    return Choice(tuple(context), tuple(tuple(alternatives[i]) for i in order), order.index(0))
