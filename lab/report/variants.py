"""Which runs are seeds of one variant, and what tells the variants apart.

Nothing is asked for: the configs are compared. Runs that are equal in everything but their seeds, and what
cannot change a result (``IGNORED``), are one variant. A setting inside a component is compared only among
variants that chose the same component, so ``norm=layernorm`` against ``norm=rmsnorm`` does not drag their
different ``norm.eps`` defaults into the label; and where several presets meet, what comes with a preset is compared
among its own runs alone. A data file counts as what it holds, not as its path.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lab.choices import COMBINED
from lab.report.settings import WORDS, Part, Parts, combined, part_of
from lab.runs.identity import SOURCE

Record = Mapping[str, Any]
"""One parsed ``result.json``."""

HASHED = ("data", "tokenizer")
"""What is told apart by its hash where the settings are equal."""

UNKNOWN = "?"
"""The hash of a run that ended before it had one, where its neighbours have several."""


@dataclass(frozen=True)
class Variant:
    """Runs that differ in nothing but their seed."""

    label: str
    """What tells it from the other variants; with a single variant its components in words."""

    settings: dict[str, Any]
    """The settings that tell it apart, by key."""

    records: tuple[Record, ...]
    """Its runs by ascending seed."""


@dataclass
class _Group:
    parts: tuple[Part, ...]
    hashes: dict[str, str]
    records: list[Record]

    @cached_property
    def source(self) -> tuple[str, ...]:
        """The data and tokenizer settings, as text."""
        return tuple(part.text for part in self.parts if part.name in HASHED)


def variants(records: Iterable[Record], *, in_order: bool = False) -> list[Variant]:
    """Group runs into variants, in the natural order of their labels, or in that of their first runs."""
    records = list(records)
    place = {id(record): number for number, record in enumerate(records)}
    groups = _by_preset(_groups(records))
    differing = _differing(groups)
    telling = {
        part: {s.key: s.value for s in part.settings if (s.key, s.scope) in differing}
        for part in {part for group in groups for part in group.parts}
    }
    seen = _hashes_seen(groups)
    found = []
    for group in groups:
        settings = {key: value for part in group.parts for key, value in telling[part].items()}
        marks = {f"{kind}#": group.hashes[kind] for kind in HASHED if len(seen[kind, group.source]) > 1}
        words = [f"{key}={show(value)}" for key, value in settings.items()]
        words += [f"{mark}{short_hash(value)}" for mark, value in marks.items()]
        runs = tuple(sorted(group.records, key=replicate))
        label = " ".join(words) or in_words(group.records[0])
        found.append(Variant(label, settings | marks, runs))
    if in_order:
        return sorted(found, key=lambda variant: min(place[id(record)] for record in variant.records))
    return sorted(found, key=lambda variant: natural(variant.label))


def config_of(record: Record) -> Mapping[str, Any]:
    """The config of a run; empty when it ended before it had one."""
    config = record.get("config")
    return config if isinstance(config, dict) else {}  # as JSON has it


def choice(record: Record, section: str) -> str | None:
    """The name chosen in a section, or None."""
    part = config_of(record).get(section)
    name = part.get("name") if isinstance(part, dict) else None
    return str(name) if name is not None else None


def in_words(record: Record) -> str:
    """A model in words: ``rmsnorm pre swiglu gqa rope``, and what stabilises and regularises it."""
    names = [(section, choice(record, section)) for section in WORDS]
    words = [f"{section}=none" if name == "none" else name for section, name in names if name]
    for section in COMBINED:
        words += combined(config_of(record).get(section))
    return " ".join(words) or "no config"


def natural(label: str) -> list[tuple[float, str]]:
    """Sort key that compares numbers as numbers: ``x=9`` before ``x=10``, ``1e-05`` before ``0.001``."""
    parts = re.split(r"((?:(?<==)-)?\d+(?:\.\d+)?(?:e[+-]?\d+)?)", label)
    return [(float(part), "") if odd % 2 else (0.0, part) for odd, part in enumerate(parts)]


def show(value: Any) -> str:
    """A value as one would write it on the command line."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return ",".join(show(item) for item in value) or "none"
    return json.dumps(value)


def short_hash(value: str) -> str:
    """The first six characters of a hash."""
    return value.rpartition(":")[2][:6]


def hash_of(record: Record, kind: str) -> str | None:
    """The hash of a run's data, tokenizer, …; None where it has none."""
    hashes = record.get("hashes")
    value = hashes.get(kind) if isinstance(hashes, dict) else None
    return str(value) if value else None


def replicate(record: Record) -> tuple[int, int]:
    """``seed`` and ``study_seed``: runs of several variants that agree in both may be pairs."""
    config = config_of(record)
    return int(config.get("seed") or 0), int(config.get("study_seed") or 0)


def _groups(records: Iterable[Record]) -> list[_Group]:
    parts = Parts()
    by_config: dict[tuple[Part, ...], list[Record]] = {}
    for record in records:
        by_config.setdefault(parts.of({**config_of(record), **_source(record)}), []).append(record)
    groups = []
    for key, same in by_config.items():
        by_hash: dict[tuple[str, ...], list[Record]] = {}
        known = {kind: {hash_of(record, kind) for record in same} - {None} for kind in HASHED}
        # A run that failed before it had hashes belongs to its variant, unless that would be a guess.
        lone = [next(iter(known[kind])) if len(known[kind]) == 1 else None for kind in HASHED]
        for record in same:
            hashes = (hash_of(record, kind) or one or UNKNOWN for kind, one in zip(HASHED, lone, strict=True))
            by_hash.setdefault(tuple(hashes), []).append(record)
        groups += [_Group(key, dict(zip(HASHED, found, strict=True)), runs) for found, runs in by_hash.items()]
    return groups


def _by_preset(groups: list[_Group]) -> list[_Group]:
    """The groups, where they come from several presets with these for a scope of what a preset sets."""
    presets = [str(config_of(group.records[0]).get("preset") or "none") for group in groups]
    if len(set(presets)) < 2:
        return groups
    made: dict[tuple[Part, str], Part] = {}
    first = {preset: part_of("preset", preset) for preset in presets}
    for group, preset in zip(groups, presets, strict=True):
        own = [made.get((p, preset)) or made.setdefault((p, preset), p.within(preset)) for p in group.parts]
        group.parts = (first[preset], *own)
    return groups


def _source(record: Record) -> dict[str, Any]:
    """Where the weights came from: a source counts as its variant, since each seed may have its own."""
    start = record.get("init_from")
    if not isinstance(start, Mapping):
        return dict.fromkeys(SOURCE) if config_of(record) else {}
    return {"init_from": short_hash(str(start.get("variant"))), "init_from_pool": start.get("pool")}


def _differing(groups: Sequence[_Group]) -> set[tuple[str, str]]:
    """The (key, scope) pairs that do not have one and the same value in all groups of that scope."""
    shared = Counter(part for group in groups for part in group.parts)
    members = Counter(
        scope for group in groups for scope in frozenset({""}).union(*(p.scopes for p in group.parts))
    )
    values: dict[tuple[str, str], set[str]] = {}
    having: Counter[tuple[str, str]] = Counter()
    for part, n in shared.items():
        for key, said in part.said:
            values.setdefault(key, set()).add(said)
            having[key] += n
    return {key for key, found in values.items() if len(found) > 1 or having[key] < members[key[1]]}


def _hashes_seen(groups: Iterable[_Group]) -> dict[tuple[str, tuple[str, ...]], set[str]]:
    """By kind, and by data and tokenizer settings, the hashes that occur."""
    seen: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for group in groups:
        for kind in HASHED:
            seen.setdefault((kind, group.source), set()).update({group.hashes[kind]} - {UNKNOWN})
    return seen
