"""Variants of runs with their series, as the figures of runs draw them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.figure import Run
from lab.figure._style import MOST
from lab.report.rows import one_a_seed
from lab.report.variants import Record, config_of, variants
from lab.runs.metrics import read_lines


@dataclass(frozen=True)
class Drawn:
    """A variant, one run a seed."""

    label: str
    runs: tuple[Run, ...]
    """By ascending seed."""


def grouped(runs: Sequence[Run], *, in_order: bool, most: int = MOST, one_seed: bool = True) -> list[Drawn]:
    """The runs by variant, in the order and with the labels of ``lab table``; of several of a seed one.

    Raises:
        LabError: there are more variants than can be told apart.
    """
    by_record = {id(run.record): run for run in runs}
    found = [
        Drawn(label, tuple(by_record[id(r)] for r in (one_a_seed(records) if one_seed else records)))
        for label, records in _labelled(runs, in_order=in_order)
    ]
    if len(found) > most:
        raise LabError(
            f"{len(found)} variants are too many for one figure, which tells {most} apart: name fewer runs"
        )
    return found


def _labelled(runs: Sequence[Run], *, in_order: bool) -> list[tuple[str, Sequence[Record]]]:
    """The records of each variant, which is an arm where all runs are of one study."""
    if not all(run.arm for run in runs):
        return [(v.label, v.records) for v in variants([run.record for run in runs], in_order=in_order)]
    arms: dict[str, list[Record]] = {}
    for run in sorted(runs, key=seed_of):
        arms.setdefault(str(run.arm), []).append(run.record)
    return [(arm, arms[arm]) for arm in dict.fromkeys(str(run.arm) for run in runs)]


def series(run: Run) -> list[dict[str, Any]]:
    """The lines of a run's ``metrics.jsonl``, or those that were stored; none where it has none."""
    if run.lines is not None:
        return [dict(line) for line in run.lines]
    file: Path = run.folder / "metrics.jsonl"
    return read_lines(file) if file.exists() else []


def seed_of(run: Run) -> int:
    """A run's seed."""
    return int(config_of(run.record).get("seed") or 0)
