"""Variants of runs with their series, as the figures of runs draw them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.figure import Run
from lab.figure._style import MOST
from lab.report.rows import one_a_seed
from lab.report.variants import config_of, variants
from lab.runs.metrics import read_lines


@dataclass(frozen=True)
class Drawn:
    """A variant, one run a seed."""

    label: str
    runs: tuple[Run, ...]
    """By ascending seed."""


def grouped(runs: Sequence[Run], *, in_order: bool, most: int = MOST) -> list[Drawn]:
    """The runs by variant, in the order and with the labels of ``lab table``.

    Raises:
        LabError: there are more variants than can be told apart.
    """
    folders = {id(run.record): run.folder for run in runs}
    found = [
        Drawn(v.label, tuple(Run(record, folders[id(record)]) for record in one_a_seed(v.records)))
        for v in variants([run.record for run in runs], in_order=in_order)
    ]
    if len(found) > most:
        raise LabError(
            f"{len(found)} variants are too many for one figure, which tells {most} apart: name fewer runs"
        )
    return found


def series(run: Run) -> list[dict[str, Any]]:
    """The lines of a run's ``metrics.jsonl``; none where it has none."""
    file: Path = run.folder / "metrics.jsonl"
    return read_lines(file) if file.exists() else []


def seed_of(run: Run) -> int:
    """A run's seed."""
    return int(config_of(run.record).get("seed") or 0)
