"""Which runs are seeds of one variant, and what tells the variants apart.

Nothing is asked for: the configs are compared. Runs that are equal in everything but their seeds, and what
cannot change a result (``IGNORED``), are one variant. A setting inside a component is compared only among
variants that chose the same component, so ``norm=layernorm`` against ``norm=rmsnorm`` does not drag their
different ``norm.eps`` defaults into the label; and where several presets meet, what comes with a preset is compared
among its own runs alone. A data file counts as what it holds, not as its path.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lab.choices import COMBINED
from lab.runs.identity import NO_EFFECT, SOURCE, without

Record = Mapping[str, Any]
"""One parsed ``result.json``."""

IGNORED = ("seed", "study_seed", *NO_EFFECT)
"""Settings, or whole sections, that do not make a variant: seeds, and what cannot change a result."""

WORDS = ("norm", "block", "activation", "attn", "position")
"""The components that describe a model in words, in that order."""

PRESET = (*WORDS, *COMBINED, "init", "model")
"""The sections that a preset sets."""

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


@dataclass(frozen=True)
class _Setting:
    key: str
    scope: str
    """The choice within which this setting is compared; empty: among all."""
    value: Any


@dataclass
class _Group:
    settings: tuple[_Setting, ...]
    hashes: dict[str, str]
    records: list[Record]

    @cached_property
    def source(self) -> str:
        """The data and tokenizer settings, as text."""
        return _canonical(s for s in self.settings if s.key.partition(".")[0] in HASHED)


def variants(records: Iterable[Record], *, in_order: bool = False) -> list[Variant]:
    """Group runs into variants, in the natural order of their labels, or in that of their first runs."""
    records = list(records)
    place = {id(record): number for number, record in enumerate(records)}
    groups = _by_preset(_groups(records))
    differing = _differing([group.settings for group in groups])
    seen = _hashes_seen(groups)
    found = []
    for group in groups:
        settings = {s.key: s.value for s in group.settings if (s.key, s.scope) in differing}
        marks = {f"{kind}#": group.hashes[kind] for kind in HASHED if len(seen[kind, group.source]) > 1}
        words = [f"{key}={show(value)}" for key, value in settings.items()]
        words += [f"{mark}{short_hash(value)}" for mark, value in marks.items()]
        runs = tuple(sorted(group.records, key=_replicate))
        label = " ".join(words) or in_words(group.records[0])
        found.append(Variant(label, settings | marks, runs))
    if in_order:
        return sorted(found, key=lambda variant: min(place[id(record)] for record in variant.records))
    return sorted(found, key=lambda variant: natural(variant.label))


def config_of(record: Record) -> Mapping[str, Any]:
    """The config of a run; empty when it ended before it had one."""
    config = record.get("config")
    return config if isinstance(config, Mapping) else {}


def choice(record: Record, section: str) -> str | None:
    """The name chosen in a section, or None."""
    part = config_of(record).get(section)
    name = part.get("name") if isinstance(part, Mapping) else None
    return str(name) if name is not None else None


def in_words(record: Record) -> str:
    """A model in words: ``rmsnorm pre swiglu gqa rope``, and what stabilises and regularises it."""
    names = [(section, choice(record, section)) for section in WORDS]
    words = [f"{section}=none" if name == "none" else name for section, name in names if name]
    for section in COMBINED:
        words += _combined(config_of(record).get(section))
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
    value = hashes.get(kind) if isinstance(hashes, Mapping) else None
    return str(value) if value else None


def _replicate(record: Record) -> tuple[int, int]:
    config = config_of(record)
    return int(config.get("seed") or 0), int(config.get("study_seed") or 0)


def _groups(records: Iterable[Record]) -> list[_Group]:
    by_config: dict[str, list[Record]] = {}
    for record in records:
        kept = without(config_of(record), IGNORED) | _source(record)
        by_config.setdefault(json.dumps(kept, sort_keys=True), []).append(record)
    groups = []
    for text, same in by_config.items():
        settings = tuple(_settings(json.loads(text)))
        by_hash: dict[tuple[str, ...], list[Record]] = {}
        known = {kind: {hash_of(record, kind) for record in same} - {None} for kind in HASHED}
        for record in same:
            # A run that failed before it had hashes belongs to its variant, unless that would be a guess.
            lone = {kind: next(iter(known[kind])) if len(known[kind]) == 1 else None for kind in HASHED}
            key = tuple(hash_of(record, kind) or lone[kind] or UNKNOWN for kind in HASHED)
            by_hash.setdefault(key, []).append(record)
        groups += [_Group(settings, dict(zip(HASHED, key, strict=True)), runs) for key, runs in by_hash.items()]
    return groups


def _by_preset(groups: list[_Group]) -> list[_Group]:
    """The groups, where they come from several presets with these for a scope of what a preset sets."""
    presets = [str(config_of(group.records[0]).get("preset") or "none") for group in groups]
    if len(set(presets)) < 2:
        return groups
    for group, preset in zip(groups, presets, strict=True):
        own = (
            replace(s, scope=f"preset={preset} {s.scope}") if s.key.partition(".")[0] in PRESET else s
            for s in group.settings
        )
        group.settings = (_Setting("preset", "", preset), *own)
    return groups


def _source(record: Record) -> dict[str, Any]:
    """Where the weights came from: a source counts as its variant, since each seed may have its own."""
    start = record.get("init_from")
    if not isinstance(start, Mapping):
        return dict.fromkeys(SOURCE) if config_of(record) else {}
    return {"init_from": short_hash(str(start.get("variant"))), "init_from_pool": start.get("pool")}


def _canonical(settings: Iterable[_Setting]) -> str:
    return json.dumps(sorted((s.key, s.scope, json.dumps(s.value, sort_keys=True)) for s in settings))


def _settings(config: Mapping[str, Any]) -> Iterator[_Setting]:
    """All settings that may make a variant: components first, then sections, then single settings."""
    sections = [s for s in config if s not in IGNORED]
    order = [*WORDS, *COMBINED]
    sections.sort(key=lambda s: (not isinstance(config[s], Mapping), order.index(s) if s in order else len(order)))
    for section in sections:
        part = config[section]
        if not isinstance(part, Mapping):
            yield _Setting(section, "", part)
        elif section in COMBINED:
            yield _Setting(section, "", _combined(part))
            for name in _combined(part):
                yield _Setting(section, f"{section}.{name}", True)
                yield from _leaves(_inside(part[name]), f"{section}.{name}", f"{section}.{name}")
        elif isinstance(part.get("name"), str):
            yield _Setting(section, "", part["name"])
            yield _Setting(section, f"{section}={part['name']}", True)
            yield from _leaves(_inside(part), section, f"{section}={part['name']}")
        else:
            yield from _leaves(part, section, "")


def _combined(part: Any) -> list[str]:
    """The choices of a section in which several apply at once, sorted, without ``none``."""
    return sorted(name for name in part if name != "none") if isinstance(part, Mapping) else []


def _inside(component: Any) -> Any:
    """A component without its name, which is compared as the choice of its section."""
    return {k: v for k, v in component.items() if k != "name"} if isinstance(component, Mapping) else component


def _leaves(part: Any, key: str, scope: str) -> Iterator[_Setting]:
    if not isinstance(part, Mapping):
        yield _Setting(key, scope, part)
        return
    for name, value in part.items():
        yield from _leaves(value, f"{key}.{name}", scope)


def _differing(groups: Sequence[Sequence[_Setting]]) -> set[tuple[str, str]]:
    """The (key, scope) pairs that do not have one and the same value in all groups of that scope."""
    values: dict[tuple[str, str], list[str]] = {}
    members: dict[str, int] = {}
    for group in groups:
        for scope in {s.scope for s in group} | {""}:
            members[scope] = members.get(scope, 0) + 1
        for s in group:
            values.setdefault((s.key, s.scope), []).append(_said(s.value))
    return {
        (key, scope) for (key, scope), found in values.items() if len(set(found)) > 1 or len(found) < members[scope]
    }


def _said(value: Any) -> str:
    """A value as text that no other value has; numbers and words, of which there are most, the quick way."""
    return (
        repr(value) if isinstance(value, (str, int, float)) or value is None else json.dumps(value, sort_keys=True)
    )


def _hashes_seen(groups: Iterable[_Group]) -> dict[tuple[str, str], set[str]]:
    """By kind, and by data and tokenizer settings, the hashes that occur."""
    seen: dict[tuple[str, str], set[str]] = {}
    for group in groups:
        for kind in HASHED:
            seen.setdefault((kind, group.source), set()).update({group.hashes[kind]} - {UNKNOWN})
    return seen
