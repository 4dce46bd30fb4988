"""From the runs of a study to the file that keeps it, and from the file to what tables and figures take."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from lab.commands._compared import SHARED, Found, comparison
from lab.commands._stored_files import places, stems
from lab.errors import LabError, did_you_mean
from lab.figure import Run
from lab.report import stored, thinned
from lab.report.stored import Stored, StoredRun, rounded
from lab.report.variants import Record
from lab.runs.attempts import attempts
from lab.runs.metrics import read_lines
from lab.runs.store import read_runs
from lab.study.cell import Cell
from lab.study.manifest import Entry, Manifest
from lab.study.state import ENDED

MACHINE = ("processor", "cores", "gpu", "platform")
"""Keys of a run's environment that are of the machine."""

REPORTED = ("spikes", "layers", "val_losses", "attention_path", "clipped_share", "tokens_per_s", "peak_memory_mib")
"""What is kept of reported runs alone."""

SAID = ("lab", "python", "torch")
"""Versions that the environment has beside its packages."""


def load(word: str) -> Stored:
    """A stored study by its stem or the path of its file.

    Raises:
        LabError: there is none, or it cannot be read.
    """
    path = Path(word)
    if path.suffix == ".json":
        return stored.read(path)
    file = next((file for place in places() if (file := place / f"{word}.json").is_file()), None)
    if file is None:
        known = stems()
        some = f": there are {', '.join(known)}" if known else f": there is nothing in {places()[0]}"
        raise LabError(f"--stored '{word}' is not a stored study{some}{did_you_mean(word, known)}")
    return stored.read(file)


def found(kept: Stored, *, tuning: bool = False) -> Found:
    """What ``lab.commands._compared.find`` would have found of the study's runs."""
    manifest = manifest_of(kept)
    entries = {entry.id: entry for entry in manifest.runs}
    runs = [run for run in kept.runs if tuning or run.role == "report"]
    return Found(
        records=[run.result for run in runs],
        folders=[entries[run.id].folder.path for run in runs],
        arms={entry.folder.path: entry.cell.arm for entry in manifest.runs},
        missing=list(_lacking(kept)),
        tuning={} if tuning else _by_arm(run for run in kept.runs if run.role == "tune"),
        manifest=None if tuning else manifest,
        fresh=_fresh(kept),
        results=frozenset(entries),
    )


def _by_arm(runs: Iterable[StoredRun]) -> dict[str, list[Record]]:
    by_arm: dict[str, list[Record]] = {}
    for run in runs:
        by_arm.setdefault(run.arm, []).append(run.result)
    return by_arm


def drawn(kept: Stored, *, tuning: bool = False) -> list[Run]:
    """The runs as figures take them."""
    there = found(kept, tuning=tuning)
    lines = {run.id: run.lines() for run in kept.runs}
    return [
        Run(record, folder, there.arms[folder], lines[str(record["id"])])
        for record, folder in zip(there.records, there.folders, strict=True)
    ]


def manifest_of(kept: Stored) -> Manifest:
    """The study as it was asked for."""
    runs = tuple(Entry(run.id, run.stage, Cell(run.arm, (), _role(run), run.seed, run.lr)) for run in kept.runs)
    return Manifest(
        name=kept.study,
        hash=kept.hash,
        words=tuple(kept.words),
        declared=dict(kept.declared),
        asked=kept.asked,
        expected=kept.expected,
        runs=runs,
    )


def _role(run: StoredRun) -> Any:
    return run.role


def _fresh(kept: Stored) -> frozenset[str] | None:
    mode = (kept.declared.get("lr") or {}).get("mode", SHARED)
    return None if mode == SHARED else frozenset(run.id for run in kept.runs if run.role == "report")


def _lacking(kept: Stored) -> Iterator[str]:
    done = sum(run.result["status"] in ENDED for run in kept.runs)
    if done < kept.expected:
        yield f"{kept.stem} was stored without {kept.expected - done} of its {kept.expected} runs"


def gather(manifest: Manifest, *, incomplete: bool) -> Stored:
    """What is to be stored of a study whose runs have ended.

    Args:
        manifest: of a study that is declared.
        incomplete: whether runs may be missing.

    Raises:
        LabError: they are.
    """
    if manifest.declared is None:
        raise LabError(f"{manifest.label} is a sweep: only what a study file declares is stored")
    entries = {entry.folder.path: entry for entry in manifest.runs}
    results, _ = read_runs([entry.folder for entry in manifest.runs])
    ended = [(entries[folder], result) for folder, result in results if result["status"] in ENDED]
    if len(ended) < manifest.expected and not incomplete:
        raise LabError(
            f"{manifest.label} is not complete: {manifest.expected - len(ended)} of {manifest.expected} runs have "
            f"no result; lab resume {manifest.label}, or --incomplete stores what there is"
        )
    if not ended:
        raise LabError(f"{manifest.label} has no run that ended")
    unmeasured = sum(_lacks_measures(manifest, entry, result) for entry, result in ended)
    if unmeasured and not incomplete:
        raise LabError(
            f"{manifest.label}: measures that the study declares are lacking, of runs: {unmeasured}; lab measure "
            f"{manifest.label}, or --incomplete stores what there is"
        )
    environments = [_environment(entry) for entry, _ in ended]
    commits = {str(commit) for _, result in ended if (commit := (result.get("env") or {}).get("commit"))}
    kept = Stored(
        study=manifest.name,
        tier=manifest.declared.get("tier"),
        hash=manifest.hash,
        words=list(manifest.words),
        declared=manifest.declared,
        asked=manifest.asked,
        expected=manifest.expected,
        date=max(filter(None, (_last_day(entry) for entry, _ in ended)), default=manifest.asked[:10]),
        commits=sorted({commit.removesuffix("-dirty") for commit in commits}),
        dirty=any(commit.endswith("-dirty") for commit in commits),
        machine=_distinct({key: env.get(key) for key in MACHINE} for env in environments),
        threads=sorted({int(result["threads"]) for _, result in ended if result.get("threads")}),
        versions=_versions(environments),
        hours=_hours(ended),
        claims=[],
        runs=_runs(ended),
    ).settled()
    return kept.judged(verdicts(kept))


def _lacks_measures(manifest: Manifest, entry: Entry, result: Mapping[str, Any]) -> bool:
    """Whether a reported run that is done was not measured as its study declares."""
    names = {*((manifest.declared or {}).get("measures") or ())}
    return entry.cell.role == "report" and result["status"] == "done" and not names <= {*result.get("measures", ())}


def again(kept: Stored) -> Stored:
    """A stored study, judged anew."""
    return kept.judged(verdicts(kept))


def verdicts(kept: Stored) -> list[dict[str, Any]]:
    """What is to be said of the claims that the study names, of nothing but what is stored, to the digits kept."""
    said: list[dict[str, Any]] = rounded(list(comparison(found(kept)).judged))
    return said


def _runs(ended: list[tuple[Entry, dict[str, Any]]]) -> list[StoredRun]:
    lines = {
        entry.id: read_lines(entry.folder.metrics) if entry.folder.metrics.is_file() else []
        for entry, _ in ended
        if entry.cell.role == "report"
    }
    at = thinned.grid(list(lines.values()))
    return [
        StoredRun(
            id=entry.id,
            arm=entry.cell.arm,
            role=entry.cell.role,
            stage=entry.stage,
            seed=entry.cell.seed,
            lr=entry.cell.lr,
            result=_result(result, lines[entry.id]) if entry.id in lines else _of_tuning(result),
            curve=thinned.curve(lines[entry.id], result, at) if lines.get(entry.id) else None,
        )
        for entry, result in ended
    ]


def _result(result: Mapping[str, Any], lines: list[dict[str, Any]]) -> dict[str, Any]:
    """With the validations, which older results do not hold."""
    if result.get("val_losses") is not None:
        return dict(result)
    return {**result, "val_losses": [[line["step"], line["val_loss"]] for line in lines if line.get("val_loss")]}


def _of_tuning(result: Mapping[str, Any]) -> dict[str, Any]:
    """Of a run that only helped to choose a learning rate, what tables do not show of it is left out."""
    return {key: None if key in REPORTED else value for key, value in result.items()}


def _environment(entry: Entry) -> dict[str, Any]:
    try:
        value = json.loads((entry.folder.path / "env.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _distinct(values: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found = {json.dumps(value, sort_keys=True): value for value in values}
    return [found[key] for key in sorted(found)]


def _versions(environments: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for env in environments:
        said = {key: env.get(key) for key in SAID} | dict(env.get("packages") or {})
        for key, value in said.items():
            if value:
                found.setdefault(key, set()).add(str(value))
    return {key: sorted(values) for key, values in sorted(found.items())}


def _last_day(entry: Entry) -> str:
    return max((one.ended[:10] for one in attempts(entry.folder) if one.ended), default="")


def _hours(ended: list[tuple[Entry, dict[str, Any]]]) -> float | None:
    """Of all attempts; of runs that were trained as a stack each has its share. None: nothing is known of them."""
    seconds = []
    for entry, result in ended:
        company = max(result.get("stacked") or [1])
        for one in attempts(entry.folder):
            if one.ended:
                spent = datetime.fromisoformat(one.ended) - datetime.fromisoformat(one.started)
                seconds.append(max(0.0, spent.total_seconds()) / company)
    return round(sum(seconds) / 3600, 2) if seconds else None
