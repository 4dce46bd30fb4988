"""A run's identity: what decides its result, and nothing else.

Two commands that come to the same resolved settings on the same data are the same run, wherever they are given;
the folder's name is a hash of that. Paths, hosts and commits stay out of it.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

FORMAT = 1
"""Raised when a change of the code changes results at equal settings, so that old runs are not taken for new."""

NO_EFFECT = (
    "fresh",
    "track",
    "train.checkpoint_every",
    "checkpoint",
    "data.file",
    "preset",
    "preset_size",
    "match",
)
"""Keys that cannot change a result, or have left their mark elsewhere: ``data.file`` in the hash of what it holds,
a preset in choices and values, a match in the feed-forward width."""

YOUNGER = {"compile": False, "data.ngram_rate": 0.0, "data.ngram_mask": False}
"""Keys younger than some runs, and what those were trained with: at that value they do not count."""

_YOUNGER_IN = {"data": {key.removeprefix("data."): old for key, old in YOUNGER.items() if key.startswith("data.")}}

SOURCE = ("init_from", "init_from_pool")
"""Keys that count by what they stand for: another run's id, the step of its weights, what was done to them."""


def run_id(
    config: Mapping[str, Any], *, data_hash: str, tokenizer_hash: str, source: Mapping[str, Any] | None = None
) -> str:
    """Twelve hex digits for a decoded configuration in which no ``auto`` is left.

    ``source`` is what ``init_from`` stands for; None where weights are drawn.
    """
    old = tuple(key for key, value in YOUNGER.items() if _value(config, key) == value)
    kept = without(config, (*NO_EFFECT, *SOURCE, *old))
    parts: dict[str, Any] = {"format": FORMAT, "config": kept, "data": data_hash, "tokenizer": tokenizer_hash}
    if source is not None:
        parts["source"] = source
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def without(config: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """A copy without some dotted keys."""
    inner = _inner(keys)
    kept: dict[str, Any] = {}
    for key, value in config.items():
        if key not in keys:
            below = inner.get(key)
            kept[key] = without(value, below) if below and isinstance(value, Mapping) else value
    return kept


def completed(section: str, value: Any) -> Any:
    """A section of a config with the keys that are younger than its run, at what that was trained with."""
    if section not in _YOUNGER_IN or not isinstance(value, Mapping):
        return value
    return {**_YOUNGER_IN[section], **value}


def _value(config: Mapping[str, Any], key: str) -> Any:
    """The value of a dotted key; None where there is none."""
    first, dot, rest = key.partition(".")
    value = config.get(first)
    return (_value(value, rest) if isinstance(value, Mapping) else None) if dot else value


@lru_cache(maxsize=64)
def _inner(keys: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Of dotted keys what comes after the first dot, by what comes before it."""
    found: dict[str, tuple[str, ...]] = {}
    for key in keys:
        first, dot, rest = key.partition(".")
        if dot:
            found[first] = (*found.get(first, ()), rest)
    return found
