"""From paths to the comparison of a table: a study's arms as it declared them, or variants that are found."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab.errors import ConfigError
from lab.report.combined import Combination
from lab.report.comparison import Comparison, compare, labelled, pick, setting
from lab.report.effects import Stats
from lab.report.lr_table import LR
from lab.report.variants import Record, Variant, replicate, variants
from lab.runs.store import RunFolder, read_runs
from lab.study.design import Contrast, asked_for
from lab.study.manifest import Manifest
from lab.study.manifest import at as study_at
from lab.study.state import ENDED

SHARED = "shared"
"""The value of ``lr.mode`` of a study that takes its learning rate as it is set."""


@dataclass
class Found:
    """What lies under the paths."""

    records: list[Record] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    """Of each record its run's folder."""
    arms: dict[Path, str] = field(default_factory=dict)
    """By folder; of the one study that was named, where it declares its arms."""
    damaged: list[Path] = field(default_factory=list)
    """Files that are no results."""
    missing: list[str] = field(default_factory=list)
    """What studies still lack, a line each."""
    studies: bool = True
    """Whether all paths are studies."""
    manifest: Manifest | None = None
    """The one study that was named, where it declares its arms."""
    fresh: frozenset[str] | None = None
    """Ids of runs on seeds that chose no learning rate; None: no study that was named chose one."""
    results: frozenset[str] | None = None
    """Ids of all runs that have a result, of a study that was stored; None: the runs' folders tell."""


def find(paths: Sequence[Path], *, tuning: bool = False) -> Found:
    """Read the results under the paths.

    Args:
        paths: of studies, by name or folder, or of runs.
        tuning: whether runs of studies that chose a learning rate are read too; then each rate of an arm is a row.

    Raises:
        LabError: a path is missing or cannot be read.
    """
    found, places = Found(), list[Path | RunFolder]()
    manifests: list[Manifest] = []
    for path in paths:
        manifest = study_at(path)
        if manifest is None:
            places.append(path)
            found.studies = False
            continue
        manifests.append(manifest)
        runs = {entry.id: entry for entry in manifest.runs if entry.cell.role == "report"}
        places += [entry.folder for entry in (manifest.runs if tuning else runs.values())]
    read, found.damaged = read_runs(places)
    found.folders, found.records = [folder for folder, _ in read], [record for _, record in read]
    ended = {record["id"] for record in found.records if record["status"] in ENDED}
    found.missing += [line for manifest in manifests for line in _incomplete(manifest, ended)]
    tuned = [m for m in manifests if ((m.declared or {}).get("lr") or {}).get("mode", SHARED) != SHARED]
    if tuned:
        found.fresh = frozenset(entry.id for m in tuned for entry in m.runs if entry.cell.role == "report")
    if found.studies and len(manifests) == 1 and manifests[0].declared:
        found.arms = {entry.folder.path: entry.cell.arm for entry in manifests[0].runs}
        found.manifest = None if tuning else manifests[0]
    return found


def comparison(
    found: Found, *, baseline: str | None = None, by: Sequence[str] = (), where: Sequence[str] = ()
) -> Comparison:
    """The variants with their baseline.

    Args:
        found: at least one result.
        baseline: words that name a row; None: the study's, or the first row.
        by: settings that alone name the rows.
        where: ``KEY=VALUE``; runs with other values are left out.

    Raises:
        ConfigError: one of these fits nothing.
    """
    records = [record for record in found.records if all(_fits(record, word) for word in where)]
    if not records:
        raise ConfigError(f"--where {' '.join(where)}: no run is so")
    chosen = baseline or by or where
    if found.manifest is not None:
        rows = list(_arms(found.manifest, records))
        if where:
            rows = [row for row in rows if row.records]
        rows = labelled(rows, by) if by else rows
        base = pick(rows, baseline) if baseline else None
        return compare(rows, baseline=base, **_declared(found, exploratory=bool(chosen), rows=rows))
    rows = _by_rate(found, records) if found.arms else variants(records, in_order=found.studies)
    rows = labelled(rows, by) if by else rows
    made = compare(rows, baseline=pick(rows, baseline) if baseline else None, missing=found.missing)
    return replace(made, fresh=found.fresh)


def _by_rate(found: Found, records: Sequence[Record]) -> list[Variant]:
    """Each learning rate of each arm of a study, in its order."""
    kept = {id(record) for record in records}
    arms = {id(record): found.arms[folder] for record, folder in zip(found.records, found.folders, strict=True)}
    by_rate: dict[tuple[str, str], list[Record]] = {}
    for record in found.records:
        if id(record) in kept:
            by_rate.setdefault((arms[id(record)], setting(record, LR) or "?"), []).append(record)
    place = {arm: n for n, arm in enumerate(dict.fromkeys(found.arms.values()))}
    return [
        Variant(f"{arm} {LR}={rate}", {"arm": arm, LR: rate}, tuple(sorted(runs, key=replicate)))
        for (arm, rate), runs in sorted(by_rate.items(), key=lambda item: place[item[0][0]])
    ]


def _incomplete(manifest: Manifest, ended: Collection[str]) -> Iterator[str]:
    """What a study lacks, of which the reported runs that have ended are known."""
    done = sum(
        entry.id in ended if entry.cell.role == "report" else entry.state().status in ENDED
        for entry in manifest.runs
    )
    if done < manifest.expected:
        yield (
            f"{manifest.label} is not complete: {manifest.expected - done} of {manifest.expected} runs have no "
            f"result; lab resume {manifest.label}"
        )


def _fits(record: Record, word: str) -> bool:
    key, equals, value = word.partition("=")
    if not equals:
        raise ConfigError(f"--where {word} is not KEY=VALUE")
    return setting(record, key) == value


def _arms(manifest: Manifest, records: Sequence[Record]) -> Iterator[Variant]:
    """The arms of a study in its order, those without a result too."""
    by_id = {record["id"]: record for record in records}
    arms: dict[str, dict[str, Record]] = {}
    for entry in manifest.runs:
        if entry.cell.role == "report":
            runs = arms.setdefault(entry.cell.arm, {})
            if entry.id in by_id:
                runs[entry.id] = by_id[entry.id]
    for arm, runs in arms.items():
        ordered = sorted(runs.values(), key=lambda record: int(record["config"].get("seed") or 0))
        yield Variant(arm, {}, tuple(ordered))


def _declared(found: Found, *, exploratory: bool, rows: Sequence[Variant]) -> dict[str, Any]:
    """What a study says of its verdicts, as ``compare`` takes it."""
    manifest = found.manifest
    assert manifest is not None
    said = manifest.declared or {}
    stats = said.get("stats") or {}
    missing = [line.partition(";")[0] for line in _lacking(manifest, found.results)]
    if said.get("verdicts") is False:
        missing.append(f"tier {said.get('tier')} is not judged")
    kept = {key: stats[key] for key in ("alpha", "power", "margin") if stats.get(key) is not None}
    asked = _asked(said, [row.label for row in rows]) if not exploratory else ()
    family = len(asked) or max(_family(said, len(rows)), len(rows) - 1, 1)
    base = rows[0].label
    lines = [f"study {manifest.label}, asked {manifest.asked}"]
    if exploratory:
        lines.append("exploratory: rows or baseline are not those that the study declares")
    return {
        "metric": said.get("primary") or "final_loss",
        "stats": Stats(**kept),
        "m": family,
        "missing": missing,
        "lines": lines,
        "declared": {each.plus[0] for each in asked if _is_plain(each, base)} if asked else None,
        "combinations": [
            Combination(name=each.name, plus=each.plus, minus=each.minus)
            for each in asked
            if not _is_plain(each, base)
        ],
    }


def _asked(said: dict[str, Any], arms: Sequence[str]) -> tuple[Contrast, ...]:
    """The contrasts that a study declares; none where one is of an arm that is still to come."""
    single = [part["name"] for part in said.get("variants") or ()]
    try:
        return asked_for(arms, said.get("contrasts"), said.get("design") or "star", single)
    except ConfigError:
        return ()


def _is_plain(each: Contrast, base: str) -> bool:
    """Whether it is one variant less the baseline, which is a row."""
    return len(each.plus) == 1 and each.minus == (base,)


def _family(said: dict[str, Any], arms: int) -> int:
    """Contrasts that the study declares."""
    if said.get("contrasts"):
        return len(said["contrasts"])
    single = len(said.get("variants") or ())
    return single + math.comb(single, 2) if said.get("design") == "pairwise" else arms - 1


def _lacking(manifest: Manifest, results: Collection[str] | None) -> Iterator[str]:
    for entry in manifest.runs:
        there = (entry.folder.path / "result.json").is_file() if results is None else entry.id in results
        if entry.cell.role == "report" and not there:
            yield f"{entry.cell.arm} seed {entry.cell.seed} pending"
    if manifest.expected > len(manifest.runs):
        yield f"{manifest.expected - len(manifest.runs)} runs of stages that have not begun"
