"""From paths to the comparison of a table: a study's arms as it declared them, or variants that are found."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab.commands._family import family_of
from lab.commands._judged import judged
from lab.errors import ConfigError
from lab.report.comparison import Comparison, compare, labelled, pick, setting
from lab.report.lr_table import LR
from lab.report.metric import is_of_grid
from lab.report.variants import Record, Variant, replicate, variants
from lab.runs.store import RunFolder, read_runs
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
    tuning: dict[str, list[Record]] = field(default_factory=dict)
    """By arm, of that study's runs that only chose a learning rate, where its claims are about them."""
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
        found.tuning = {} if tuning else _tuning(manifests[0])
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
        declared = _declared(found, exploratory=bool(chosen), rows=rows)
        made = compare(rows, baseline=base, **declared)
        return made if chosen else replace(made, judged=_judged(found, rows))
    rows = _by_rate(found, records) if found.arms else variants(records, in_order=found.studies)
    rows = labelled(rows, by) if by else rows
    made = compare(rows, baseline=pick(rows, baseline) if baseline else None, missing=found.missing)
    return replace(made, fresh=found.fresh)


def _tuning(manifest: Manifest) -> dict[str, list[Record]]:
    """The runs of each arm that chose its learning rate, if a claim is about them."""
    declared = manifest.declared or {}
    if not any(is_of_grid(one.get("metric") or "") for one in declared.get("published") or ()):
        return {}
    entries = {entry.folder.path: entry for entry in manifest.runs if entry.cell.role == "tune"}
    read, _ = read_runs([entry.folder for entry in entries.values()])
    found: dict[str, list[Record]] = {}
    for folder, record in read:
        found.setdefault(entries[folder].cell.arm, []).append(record)
    return found


def _judged(found: Found, rows: Sequence[Variant]) -> tuple[dict[str, Any], ...]:
    """What the study's runs say of the claims that it names."""
    manifest = found.manifest
    assert manifest is not None
    missing = [*_lacking(manifest, found.results)]
    runs = {row.label: row.records for row in rows}
    verdicts = judged(manifest.declared or {}, runs, tuning=found.tuning, missing=missing)
    return tuple(one.data for one in verdicts)


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
    missing = [line.partition(";")[0] for line in _lacking(manifest, found.results)]
    lines = [f"study {manifest.label}, asked {manifest.asked}"]
    if exploratory:
        lines.append("exploratory: rows or baseline are not those that the study declares")
    family = family_of(manifest.declared or {}, [row.label for row in rows], exploratory=exploratory)
    return {**family, "missing": [*missing, *family["missing"]], "lines": lines}


def _lacking(manifest: Manifest, results: Collection[str] | None) -> Iterator[str]:
    for entry in manifest.runs:
        there = (entry.folder.path / "result.json").is_file() if results is None else entry.id in results
        if entry.cell.role == "report" and not there:
            yield f"{entry.cell.arm} seed {entry.cell.seed} pending"
    if manifest.expected > len(manifest.runs):
        yield f"{manifest.expected - len(manifest.runs)} runs of stages that have not begun"
