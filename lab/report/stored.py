"""A finished study in one small file, from which its tables, figures and verdicts are made without its runs.

``docs/reproductions/STEM.json`` holds what was asked, on what it ran, and of each run its result and its curves:
numbers to seven digits, curves thinned to some hundred points with the spikes kept. What all runs have in common
stands once, and so does what those of an arm have. Equal runs make equal files, byte for byte; nothing in it is of
the time at which it was written.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.report.pairs import drawn

SCHEMA = 1
"""Version of the file."""

DIGITS = 7
"""Significant digits of a number, as many as its 32 bits have."""

HASH = 12
"""Hex digits of hashes that tell runs from one another."""

EXACT = ("config", "declared")
"""Sections in which numbers stay as they were written."""

UNTIERED = (None, "laptop")
"""Tiers whose file is called as the study; at others the tier is part of the name."""

Values = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """One run."""

    id: str
    arm: str
    role: str
    """``report``, or ``tune`` where it only helped to choose a learning rate."""
    stage: str
    seed: int | None
    lr: float | None
    """Where the study chose among several."""
    result: Values
    """As ``result.json``; of the hashes of initial tensors as many as tell which runs share some."""
    curve: Mapping[str, Sequence[Any]] | None
    """Training loss and gradient norm at some steps, null where not finite; None of a run that is not reported."""

    def lines(self) -> list[dict[str, Any]]:
        """The curve with the validations, as lines of ``metrics.jsonl``; empty where there is none."""
        if self.curve is None:
            return []
        found: dict[int, dict[str, Any]] = {}
        for n, step in enumerate(self.curve["step"]):
            found[step] = {"step": step, **{key: self.curve[key][n] for key in self.curve if key != "step"}}
        for step, loss in self.result.get("val_losses") or ():
            found.setdefault(step, {"step": step})["val_loss"] = loss
        return [found[step] for step in sorted(found)]


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What the file holds."""

    study: str
    """The stem of its study file."""
    tier: str | None
    hash: str
    """Of what was asked, as the study's folder has it."""
    words: Sequence[str]
    """Of the command that asked, after ``lab train``."""
    declared: Values
    """The study at its tier, whole."""
    asked: str
    """When it was first asked for, UTC."""
    expected: int
    """Runs in all."""
    date: str
    """The day on which the last run ended, UTC."""
    commits: Sequence[str]
    """That trained the runs."""
    dirty: bool
    """Whether a checkout had changes that were not committed."""
    machine: Sequence[Values]
    """Processor, cores, GPU and platform, each kind of machine once."""
    threads: Sequence[int]
    """Of the runs."""
    versions: Mapping[str, Sequence[str]]
    """Of lab, Python and packages."""
    hours: float | None
    """Of training, summed over runs."""
    claims: Sequence[Values]
    """Each published claim that the study is about, with its verdict."""
    runs: Sequence[StoredRun]

    @property
    def stem(self) -> str:
        """The file's name without its ending."""
        return stem(self.study, self.tier)

    def text(self) -> str:
        """The file."""
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "runs"}
        patterned = patterns([run.result for run in self.runs])
        results = [rounded(result) for result in patterned]
        common = shared(results)
        own = [without(result, common) for result in results]
        arms = {
            arm: shared([one for run, one in zip(self.runs, own, strict=True) if run.arm == arm])
            for arm in dict.fromkeys(run.arm for run in self.runs)
        }
        runs = [
            {**_head(run), "result": without(one, arms[run.arm]), "curve": run.curve}
            for run, one in zip(self.runs, own, strict=True)
        ]
        held = {"shared": common, "arms": arms, "runs": runs}
        return _set({"schema": SCHEMA, **rounded(plain), "digest": digest(held), **held})

    def settled(self) -> "Stored":
        """As it is read again from its file, to the digits that are kept."""
        return _parsed(json.loads(self.text()))

    def judged(self, claims: Sequence[Values]) -> "Stored":
        """With verdicts."""
        return replace(self, claims=list(claims))


def stem(study: str, tier: str | None) -> str:
    """The name of the files of a study at a tier."""
    return study if tier in UNTIERED else f"{study}-{tier}"


def digest(held: Values) -> str:
    """Sixteen hex digits over the runs, by which a result that was changed by hand is found."""
    return hashlib.sha256(_line(held).encode()).hexdigest()[:16]


def read(path: Path) -> Stored:
    """A stored study.

    Raises:
        LabError: the file cannot be read, is something else, or its runs are not those that were stored.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value.pop("schema") == SCHEMA:
            if value["digest"] != digest({key: value[key] for key in ("shared", "arms", "runs")}):
                raise LabError(f"{path}: its runs were changed after they were stored; lab store writes it anew")
            return _parsed(value)
    except OSError as error:
        raise LabError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise LabError(f"{path}: not a stored study of version {SCHEMA}, which lab store writes")


def _parsed(value: dict[str, Any]) -> Stored:
    arms = {arm: merged(value["shared"], part) for arm, part in value.pop("arms").items()}
    for key in ("schema", "digest", "shared"):
        value.pop(key, None)
    runs = [StoredRun(**run | {"result": merged(arms[run["arm"]], run["result"])}) for run in value.pop("runs")]
    return Stored(**value, runs=runs)


def _head(run: StoredRun) -> dict[str, Any]:
    return {field.name: getattr(run, field.name) for field in fields(run) if field.name not in ("result", "curve")}


def _set(value: Mapping[str, Any]) -> str:
    """Strict JSON with a line for each key, run and claim, so that a change of one is a change of a line."""
    lines = []
    for key, part in value.items():
        many = isinstance(part, list) and key in ("runs", "claims") and part
        said = "[\n" + ",\n".join(f"  {_line(one)}" for one in part) + "\n ]" if many else _line(part)
        lines.append(f" {json.dumps(key)}: {said}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """A value with its numbers rounded, but those of ``EXACT`` sections; what is not finite is null."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: part if key in EXACT else rounded(part, digits) for key, part in value.items()}
    return [rounded(part, digits) for part in value] if isinstance(value, (list, tuple)) else value


def shared(values: Sequence[Values]) -> dict[str, Any]:
    """What all of some nested sections agree in."""
    if not values:
        return {}
    found = {}
    for key, first in values[0].items():
        parts = [value.get(key, _ABSENT) for value in values]
        if all(isinstance(part, Mapping) for part in parts) and first:
            inner = shared(parts)
            if inner:
                found[key] = inner
        elif all(type(part) is type(first) and part == first for part in parts):
            found[key] = first
    return found


_ABSENT = object()
"""In the place of a key that a section has not."""


def without(value: Values, common: Values) -> dict[str, Any]:
    """A nested section without what ``shared`` found."""
    kept = {}
    for key, part in value.items():
        if key not in common:
            kept[key] = part
        elif isinstance(part, Mapping) and part != common[key]:
            kept[key] = without(part, common[key])
    return kept


def merged(common: Values, own: Values) -> dict[str, Any]:
    """The section again of which ``without`` left its own part."""
    found: dict[str, Any] = {key: _copy(part) for key, part in common.items()}
    for key, part in own.items():
        both = isinstance(part, Mapping) and isinstance(common.get(key), Mapping)
        found[key] = merged(common[key], part) if both else part
    return found


def _copy(part: Any) -> Any:
    return {key: _copy(value) for key, value in part.items()} if isinstance(part, Mapping) else part


def patterns(results: Sequence[Values]) -> list[dict[str, Any]]:
    """The results with few hashes of initial tensors, which tell of any two of them what all would tell.

    Of tensors that are equal in the same runs one stands for all.
    """
    hashed = [drawn((result.get("hashes") or {}).get("tensors")) for result in results]
    kept: dict[tuple[int | None, ...], str] = {}
    for name in dict.fromkeys(name for one in hashed for name in one):
        kept.setdefault(tuple(_first(one.get(name) for one in hashed)), name)
    names = set(kept.values())
    return [
        {**result, "hashes": _short(result["hashes"], {n: h for n, h in tensors.items() if n in names})}
        if isinstance(result.get("hashes"), Mapping)
        else dict(result)
        for result, tensors in zip(results, hashed, strict=True)
    ]


def _short(hashes: Values, tensors: Mapping[str, str]) -> dict[str, Any]:
    """The hashes with these of tensors, and what each run has its own of cut short."""
    batches = hashes.get("batches")
    return {
        **hashes,
        "batches": batches[:HASH] if isinstance(batches, str) else batches,
        "tensors": {name: value[:HASH] for name, value in tensors.items()},
    }


def _first(values: Iterator[str | None]) -> Iterator[int | None]:
    """Of each value the place where it first occurs."""
    seen: dict[str, int] = {}
    for place, value in enumerate(values):
        yield None if value is None else seen.setdefault(value, place)
