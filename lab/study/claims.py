"""Published claims: what a paper found, and what is to be said of it where our own runs measured the same.

``conf/claims/*.yaml`` lists them; docs/studies.md describes the keys. A verdict is about our scale alone, and
whoever prints one prints both scales beside it, so that nobody reads a laptop's result as a refutation of a paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lab.component import check, check_number
from lab.decode import plain
from lab.errors import ConfigError, did_you_mean
from lab.paths import conf_dir


class Compare(StrEnum):
    """What of a published figure is tested."""

    sign = "sign"
    size = "size"


class Want(StrEnum):
    """Which way a number is better; ``flat``: two are level."""

    lower = "lower"  # type: ignore[assignment]  # not the method of texts
    higher = "higher"
    flat = "flat"


class Expect(StrEnum):
    """What is to be expected of a claim at 1 to 30 million parameters, before anything is run."""

    holds = "holds"
    weak = "weak"
    noise = "noise"
    unknown = "unknown"
    not_testable = "not_testable"


class Read(StrEnum):
    """Where a figure was read."""

    text = "text"
    table = "table"
    figure = "figure"
    slides = "slides"
    code = "code"
    abstract = "abstract"
    told = "told"
    memory = "memory"


SECOND_HAND = (Read.told, Read.memory)
"""Not read in the source itself: marked with a dagger wherever it is printed."""

DAGGER = "†"
"""Of a figure that nobody here read in the paper."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What was published."""

    id: str
    source: str
    """Authors, year, arXiv number, and the table, figure or section."""
    statement: str
    """The finding, in a sentence."""
    setup: str
    """Of the published runs: size, kind of model, data."""
    figures: dict[str, Any] = field(default_factory=dict)
    """What was published: numbers, texts, lists, and sections of these."""
    want: Want | None = None
    """Which way the figures under ``at`` are better; null: nothing is to be said of it."""
    pairs: list[list[str]] = field(default_factory=list)
    """The better one, then the worse; of a flat claim two that are level."""
    at: str | None = None
    """Dotted key of the figures that has a number for each name in ``pairs``; null: there are no such numbers."""
    unit: str | None = None
    """Of the figures under ``at``; differences are compared in size only in one unit."""
    units: dict[str, str] = field(default_factory=dict)
    """Of other figures, by their keys, where they are in another one."""
    sd: float | None = None
    """Standard deviation over the published runs; null: not given."""
    n: int | None = None
    """Runs behind each value; null: not given."""
    compare: Compare = Compare.sign
    """``size`` only where unit, metric and data agree."""
    expect: Expect = Expect.unknown
    """At 1 to 30 million parameters."""
    why: str | None = None
    """Of ``expect``, in a sentence."""
    read: Read
    """Where it was read; ``told`` and ``memory`` are second hand."""
    caveat: str | None = None
    """What makes the comparison unfair."""
    group: str | None = None
    """The group whose choices ``pairs`` names: any table whose rows differ in nothing else has the claim."""
    metric: str | None = None
    """With a group: the number of ``result.json`` that comes nearest to what was published."""

    def __post_init__(self) -> None:
        if self.n is not None:
            check_number("n", self.n, least=1)
        for pair in self.pairs:
            check(len(pair) == 2, "pairs", pair, "must be the better one and the worse")
        known = self.compare is Compare.sign or (self.sd is not None and self.n is not None and self.at is not None)
        check(known, "compare", "size", "needs at, sd and n, to say how near is near")
        whole = (self.group is None) == (self.metric is None)
        check(whole, "metric", self.metric or "null", "and group must be given together")

    @property
    def names(self) -> tuple[str, ...]:
        """All names in pairs, and those of the figures."""
        paired = [name for pair in self.pairs for name in pair]
        return tuple(dict.fromkeys([*paired, *(self.values() if self.at is not None else ())]))

    @property
    def mark(self) -> str:
        """A dagger where it is second hand."""
        return DAGGER if self.read in SECOND_HAND else ""

    def unit_of(self, at: str | None = None) -> str | None:
        """The unit of the figures under a dotted key; None: the claim's own key."""
        return self.units.get(at, self.unit) if at else self.unit

    def values(self, at: str | None = None) -> dict[str, float]:
        """The published numbers by name; none where there are none by name.

        Args:
            at: dotted key of the figures; None: the claim's.

        Raises:
            ConfigError: there is no such section of numbers.
        """
        where = at or self.at
        part: Any = self.figures if where else {}
        for key in (where or "").split(".") if where else ():
            part = part.get(key) if isinstance(part, Mapping) else None
        ok = isinstance(part, Mapping) and all(_is_number(value) for value in part.values())
        check(ok, "at", where or "null", f"must be a section of numbers in figures: {', '.join(self.figures)}")
        return dict(part)

    def check_figures(self) -> None:
        """Refuse a claim whose figures lack what it says of them.

        Raises:
            ConfigError: names the key.
        """
        for key in self.units:
            check(key in self.figures, "units", key, f"must be one of the figures: {', '.join(self.figures)}")
        names = self.values()
        for name in (name for pair in self.pairs for name in pair if self.at is not None):
            near = did_you_mean(name, names)
            check(name in names, "pairs", name, f"must be one of {self.at}: {', '.join(names)}{near}")

    def about(self, variant: Mapping[str, str], baseline: Mapping[str, str]) -> int | None:
        """-1 where the variant is said to be better than the baseline, 1 worse, 0 level; None: nothing is said.

        Args:
            variant: its choice in each group.
            baseline: likewise. The two have to differ in this claim's group and in no other.
        """
        if self.group is None or [group for group in variant if variant[group] != baseline.get(group)] != [
            self.group
        ]:
            return None
        pair = [variant[self.group], baseline[self.group]]
        if self.want is Want.flat:
            return 0 if pair in self.pairs or pair[::-1] in self.pairs else None
        return -1 if pair in self.pairs else 1 if pair[::-1] in self.pairs else None

    def delta(self, variant: str, baseline: str, at: str | None = None) -> float | None:
        """The published difference of two, variant minus baseline; None where one has no number."""
        values = self.values(at)
        known = variant in values and baseline in values
        return values[variant] - values[baseline] if known else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def decode(values: Any, where: str) -> tuple[Claim, ...]:
    """Claims of a list of sections.

    Raises:
        ConfigError: names the claim, the key and the value.
    """
    return tuple(_claim(value, path) for path, value in _listed(values, where))


def _listed(values: Any, where: str) -> list[tuple[str, dict[str, Any]]]:
    """The sections of a list, each with its place for messages; no id twice."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ConfigError(f"{where} must be a list of claims")
    ids: list[str] = []
    found = []
    for number, value in enumerate(values):
        name = value.get("id") if isinstance(value, Mapping) else None
        path = f"{where}: {name or f'claim {number + 1}'}"
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path} must be a section with keys of its own")
        if name in ids:
            raise ConfigError(f"{path} is there twice")
        ids += [str(name)] if name else []
        found.append((path, dict(value)))
    return found


def _claim(value: Mapping[str, Any], path: str) -> Claim:
    figures, units = (_section(value, key, path) for key in ("figures", "units"))
    rest = {key: part for key, part in value.items() if key not in ("figures", "units")}
    none = {"want": None} if value.get("want") == "none" else {}
    found = replace(plain(path, Claim, rest | none), figures=figures, units=units)
    try:
        found.check_figures()
    except ConfigError as error:
        raise ConfigError(f"{path}.{error}") from error
    return found


def _section(value: Mapping[str, Any], key: str, path: str) -> dict[str, Any]:
    found = value.get(key) or {}
    if not isinstance(found, Mapping):
        raise ConfigError(f"{path}.{key} {found!r} must be a section with keys of its own")
    return {str(name): _texts(part) for name, part in found.items()}


def _texts(part: Any) -> Any:
    """With texts for keys, as a dotted key names them."""
    return {str(key): _texts(value) for key, value in part.items()} if isinstance(part, Mapping) else part


@cache
def _shipped() -> dict[str, tuple[str, dict[str, Any]]]:
    """The shipped claims by their ids, as they are written, with their place for messages."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for file in sorted((conf_dir() / "claims").glob("*.yaml")):
        for path, value in _listed(_read(file), file.name):
            name = str(value.get("id"))
            if name in found:
                raise ConfigError(f"{path} is in {found[name][0].partition(':')[0]} too")
            found[name] = (path, value)
    return found


def _read(file: Path) -> Any:
    """With libyaml where there is one: there are many claims, and it is ten times as fast."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(file.read_text(encoding="utf-8"), loader) or []


@cache
def claim(name: str) -> Claim:
    """A shipped claim by its id; no other is decoded.

    Raises:
        ConfigError: there is none, or it contradicts itself.
    """
    known = _shipped()
    if name not in known:
        raise ConfigError(f"'{name}' is no claim of conf/claims{did_you_mean(name, known)}")
    path, value = known[name]
    return _claim(value, path)


def claims() -> tuple[Claim, ...]:
    """The shipped claims, by file and in the order of each.

    Raises:
        ConfigError: a file contradicts itself.
    """
    return tuple(map(claim, _shipped()))


def topics() -> dict[str, list[str]]:
    """The ids of the shipped claims by topic, which is the name of their file."""
    found: dict[str, list[str]] = {}
    for name, (path, _) in _shipped().items():
        found.setdefault(path.partition(":")[0].removesuffix(".yaml"), []).append(name)
    return found


def claims_of(group: str) -> tuple[Claim, ...]:
    """The shipped claims about the choices of a group; no others are decoded."""
    return tuple(claim(name) for name, (_, value) in _shipped().items() if value.get("group") == group)
