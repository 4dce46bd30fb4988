"""Show how studies and sweeps go: the state of every run, its attempts, why one failed."""

import json
import shutil
import sys
import time
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from lab.commands._parser import Parser
from lab.commands._runs import AnyOf
from lab.errors import one_line
from lab.paths import studies_dir
from lab.study.board import duration, name
from lab.study.manifest import Entry, Manifest, find, manifests
from lab.study.state import State, counts, in_words

PIPE_WIDTH = 120

MANY = 200
"""Runs of a study up to which each of them has a line without being asked for."""

UNLISTED = ("done", "pending")
"""Statuses of runs that only ``--all`` lists where there are many: they are as they should be."""

EVERY_S = 2.0
"""Seconds between two looks of ``--watch``."""


RIGHT = ("runs", "step", "loss", "took", "tries")
"""Columns of numbers."""


def main(argv: list[str]) -> int:
    """Run ``lab status``; the exit status, 1 where there is nothing to show.

    Raises:
        LabError: there is no such study.
    """
    options = _parser().parse_args(argv)
    found = manifests() if options.study is None else [find(options.study)]
    if not found:
        print(f"lab status: no studies in {studies_dir()}; lab train -m … or study=NAME makes one", file=sys.stderr)
        return 1
    if options.format == "json":
        print(
            json.dumps(
                [_summary(m, _states(m)) for m in found] if options.study is None else _facts(found[0]), indent=2
            )
        )
    elif options.watch:
        _watch(options)
    else:
        _show(found, options)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="lab status", description=__doc__)
    labels = None if Parser.completing is None else AnyOf([manifest.label for manifest in manifests()])
    parser.add_argument(
        "study",
        metavar="STUDY",
        nargs="?",
        choices=labels,
        help="a study or sweep: its name, the beginning of it, or its folder (default: a line for each)",
    )
    parser.add_argument(
        "--watch", action="store_true", help="look again every two seconds until all runs have ended"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"a line for every run: of a study with more than {MANY} only those are listed that run, stopped, "
        "failed or diverged, the others counted",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text", help="for people, or JSON")
    return parser


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH


def _facts(manifest: Manifest) -> dict[str, Any]:
    """What ``--format json`` prints of one study."""
    states = manifest.states()
    rows = [
        {"id": entry.id, "stage": entry.stage, **asdict(entry.cell), **asdict(state)} for entry, state in states
    ]
    return {**_summary(manifest, [state for _, state in states]), "runs": rows}


def _summary(manifest: Manifest, states: list[State]) -> dict[str, Any]:
    return {
        "study": manifest.label,
        "asked": manifest.asked,
        "words": list(manifest.words),
        "expected": manifest.expected,
        "counts": _counts(manifest, states),
    }


def _counts(manifest: Manifest, states: list[State]) -> dict[str, int]:
    """Runs by status; those of stages that have not begun are pending."""
    found = counts(states)
    later = manifest.expected - len(states)
    return {**found, "pending": found.get("pending", 0) + later} if later > 0 else found


def _show(found: list[Manifest], options: Namespace) -> None:
    from rich.console import Console

    console = Console(width=_width(), highlight=False)
    for page in _pages(found, options):
        if isinstance(page, str):
            print(page)  # rich takes its time to break lines
        else:
            console.print(page)


def _watch(options: Namespace) -> None:
    from rich.console import Console, Group
    from rich.live import Live

    def look() -> list[Manifest]:
        return manifests() if options.study is None else [find(options.study)]

    def unended() -> bool:
        return any(_counts(m, _states(m)).keys() - {"done", "diverged"} for m in look())

    if not sys.stdout.isatty():
        while unended():
            _show(look(), options)
            time.sleep(EVERY_S)
        _show(look(), options)
        return
    with Live(console=Console(highlight=False), refresh_per_second=1, vertical_overflow="crop") as live:
        live.update(Group(*_pages(look(), options)))
        while unended():
            time.sleep(EVERY_S)
            live.update(Group(*_pages(look(), options)))


def _states(manifest: Manifest) -> list[State]:
    return [state for _, state in manifest.states()]


def _pages(found: list[Manifest], options: Namespace) -> list[Any]:
    """What is printed, one after the other."""
    if options.study is None:
        return [_overview(found)]
    manifest = found[0]
    states = manifest.states()
    head = f"{manifest.label}: {in_words(_counts(manifest, [s for _, s in states]))}"
    command = f"asked {manifest.asked}: lab train {' '.join(manifest.words)}"
    failed = [f"{entry.id}: see {entry.folder.log}" for entry, state in states if state.status == "failed"]
    command = "\n".join([command, *_measured(manifest)])
    if options.all or len(states) <= MANY:
        return [head, command, "", _runs(states), *failed]
    listed = [(entry, state) for entry, state in states if state.status not in UNLISTED]
    others = counts(state for _, state in states if state.status in UNLISTED)
    unlisted = [f"not listed: {in_words(others)}; --all lists every run"] if others else []
    return [head, command, "", *([_runs(listed)] if listed else []), *failed, *unlisted]


def _measured(manifest: Manifest) -> list[str]:
    """How far the measures have come that a study asks for, in a line."""
    from lab.measure._runs import lacking
    from lab.measure._study import names_of, reported

    names = names_of(manifest)
    if not names:
        return []
    runs = reported(manifest)
    whole = sum(not lacking(folder, names) for folder in runs)
    return [f"measured ({', '.join(names)}): {whole} of {len(runs)} reported runs that are done"]


def _table(*columns: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in RIGHT else "left", overflow="fold")
    return table


def _overview(studies: list[Manifest]) -> Any:
    table = _table("study", "asked", "runs", "states")
    for manifest in studies:
        found = _counts(manifest, _states(manifest))
        table.add_row(
            manifest.label, manifest.asked[:16].replace("T", " "), str(manifest.expected), in_words(found)
        )
    return table


def _runs(states: list[tuple[Entry, State]]) -> Any:
    several = len({entry.stage for entry, _ in states}) > 1
    columns = ["run", *(["stage"] if several else []), "", "state", "step", "loss", "took", "tries", "host", "why"]
    rows = [_cells(entry, state, several=several) for entry, state in states]
    if len(rows) > MANY:
        return _plain(columns, rows)
    table = _table(*columns)
    for row in rows:
        table.add_row(*row)
    return table


def _cells(entry: Entry, state: State, *, several: bool) -> list[str]:
    return [
        entry.id,
        *([entry.stage] if several else []),
        name(entry),
        state.status,
        f"{state.step}/{state.steps}" if state.steps else "–",
        "–" if state.loss is None else f"{state.loss:.4f}",
        "–" if state.seconds is None else duration(state.seconds),
        str(state.attempts or "–"),
        state.host or "–",
        one_line(state.reason or ""),
    ]


def _plain(columns: list[str], rows: list[list[str]]) -> str:
    """The same table without rich, which takes a millisecond a row; lines are as long as they are."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    lines = [columns, *rows]
    made = []
    for line in lines:
        padded = (
            f"{' ' * (width - cell_len(cell))}{cell}"
            if column in RIGHT
            else f"{cell}{' ' * (width - cell_len(cell))}"
            for column, cell, width in zip(columns, line, widths, strict=True)
        )
        made.append("   ".join(padded).rstrip())
    return "\n".join([made[0], "─" * (sum(widths) + 3 * (len(widths) - 1)), *made[1:]])
