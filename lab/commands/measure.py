"""Measure finished runs beside their loss: lengths, probes, gradients, attention, cache."""

import shutil
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import measure
from lab.commands._parser import Parser
from lab.commands._runs import AnyOf
from lab.errors import LabError
from lab.measure._runs import done, take_of_runs
from lab.measure._study import names_of
from lab.report.formats import FORMATS
from lab.report.grid import NONE, Column, Grid
from lab.report.panels import text
from lab.runs.find import find_run, run_ids
from lab.runs.store import RunFolder
from lab.stats.digits import two
from lab.study import manifest


@dataclass
class Row:
    """An arm of a study, or a run."""

    name: str
    asked: list[str]
    """Measures that its study's file asks for."""
    folders: list[RunFolder] = field(default_factory=list)


def main(argv: list[str]) -> int:
    """Run ``lab measure``; the exit status, 1 where a measure could not be taken.

    Raises:
        LabError: there is no such run or study, or none of its runs is done.
    """
    options = _parser().parse_args(argv)
    only = list(dict.fromkeys(options.only or []))
    rows = list[Row]()
    for word in options.words:
        rows += _rows(word)
    found = list(dict.fromkeys(folder for row in rows for folder in row.folders))
    if not found:
        raise LabError(f"no run of {', '.join(options.words)} is done: only runs that are can be measured")

    asked = list(dict.fromkeys(name for row in rows for name in row.asked))
    came = take_of_runs(found, only or asked or measure.names())
    for line in came.failed:
        print(f"lab measure: {line}", file=sys.stderr)
    made = grid([_facts(row, only) for row in rows])
    if made.rows or not came.failed:
        print(_set(made, options.format))
    return 1 if came.failed else 0


def _parser() -> Parser:
    known = measure.names()
    parser = Parser(
        prog="lab measure",
        description=f"{__doc__} Only what a run's folder does not hold is taken, on the text that it was trained "
        f"and validated on. Measures: {', '.join(known)}; docs/measures.md says what each is.",
    )
    parser.add_argument(
        "words",
        metavar="STUDY | RUN",
        nargs="+",
        choices=None if Parser.completing is None else AnyOf([*run_ids(), *_labels()]),
        help="a study, whose reported runs are measured, by its name or folder; or a run, by its id, the beginning "
        "of its id or its folder",
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        choices=known,
        help="one measure; may be given again (default: those that a study's file asks for, or all)",
    )
    parser.add_argument(
        "--format",
        choices=list(FORMATS),
        default="text",
        help="a table for people or papers, or data; json has the value of each run (default: text)",
    )
    return parser


def _labels() -> list[str]:
    return [known.label for known in manifest.manifests()]


def _rows(word: str) -> list[Row]:
    """The arms of a study, or a run; only runs that are done.

    Raises:
        LabError: there is neither.
    """
    study = manifest.at(Path(word).expanduser())
    if study is None:
        folder = find_run(word)
        return [Row(folder.path.name, [], done([folder]))]
    arms: dict[str, Row] = {}
    for entry in study.runs:
        if entry.cell.role == "report":
            arm = entry.cell.arm or " ".join(entry.cell.overrides)
            arms.setdefault(arm, Row(arm, names_of(study))).folders += done([entry.folder])
    return list(arms.values())


def _facts(row: Row, only: Sequence[str]) -> dict[str, Any]:
    """What is known of each run of a row."""
    runs = [
        {
            "run": folder.path.name,
            "seed": (folder.result() or {}).get("config", {}).get("seed"),
            "measures": {name: values for name, values in folder.measured().items() if not only or name in only},
        }
        for folder in row.folders
    ]
    return {"name": row.name, "runs": runs}


def grid(rows: Sequence[Mapping[str, Any]]) -> Grid:
    """One line a number, one column an arm or run: mean and standard deviation over runs."""
    runs = [(row["name"], run, _flat(run["measures"])) for row in rows for run in row["runs"]]
    keys = sorted(dict.fromkeys(key for *_, numbers in runs for key in numbers), key=lambda key: key.split(".")[0])
    lines = []
    for key in keys:
        found = [[n[key] for name, _, n in runs if name == row["name"] and key in n] for row in rows]
        lines.append([key, *map(_cell, found)])
    several = any(len(row["runs"]) > 1 for row in rows)
    spread = "mean ± standard deviation over seeds (n - 1) · " if several else ""
    return Grid(
        title="what was measured of runs that are done",
        columns=[Column(header="measure", left=True), *(Column(header=row["name"]) for row in rows)],
        rows=lines,
        notes=[f"{spread}docs/measures.md says what each number is"],
        data={"rows": rows},
        per_seed=[
            {"row": name, "seed": run["seed"], "run": run["run"], **{key: numbers.get(key) for key in keys}}
            for name, run, numbers in runs
        ],
    )


def _flat(measures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {f"{name}.{key}": value for name, values in measures.items() for key, value in values.items()}


def _cell(values: Sequence[float]) -> str:
    if not values:
        return NONE
    mean = f"{statistics.fmean(values):.4g}"
    return mean if len(values) < 2 else f"{mean} ± {two(statistics.stdev(values))}"


def _set(made: Grid, form: str) -> str:
    """The table in its format; for a terminal no wider than that."""
    if form == "text" and sys.stdout.isatty():
        return text(made, width=shutil.get_terminal_size().columns)
    return FORMATS[form](made)
