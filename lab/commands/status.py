"""Show how studies and sweeps go: the state of every run, its attempts, why one failed."""

import json
import shutil
import sys
import time
from dataclasses import asdict
from typing import Any

from lab.commands._parser import Parser
from lab.commands._runs import AnyOf
from lab.paths import studies_dir
from lab.study.board import duration, name
from lab.study.manifest import Entry, Manifest, find, manifests
from lab.study.state import State, counts, in_words

PIPE_WIDTH = 120

EVERY_S = 2.0
"""Seconds between two looks of ``--watch``."""


def main(argv: list[str]) -> int:
    """Run ``lab status``; the exit status, 1 where there is nothing to show.

    Raises:
        LabError: there is no such study.
    """
    options = _parser().parse_args(argv)
    if options.study is None and not manifests():
        print(f"lab status: no studies in {studies_dir()}; lab train -m … or study=NAME makes one", file=sys.stderr)
        return 1
    if options.format == "json":
        print(json.dumps(_facts(options.study), indent=2))
    elif options.watch:
        _watch(options.study)
    else:
        _show(options.study)
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
    parser.add_argument("--format", choices=["text", "json"], default="text", help="for people, or JSON")
    return parser


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH


def _facts(study: str | None) -> Any:
    """What ``--format json`` prints: one study, or a list of them."""
    if study is None:
        return [_summary(manifest, [state for _, state in manifest.states()]) for manifest in manifests()]
    manifest = find(study)
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


def _show(study: str | None) -> None:
    from rich.console import Console

    console = Console(width=_width(), highlight=False)
    console.print(*_pages(study), sep="\n", markup=False, end="\n")


def _watch(study: str | None) -> None:
    from rich.console import Console, Group
    from rich.live import Live

    def unended() -> bool:
        chosen = [find(study)] if study else manifests()
        return any(_counts(m, states).keys() - {"done", "diverged"} for m in chosen if (states := _states(m)))

    if not sys.stdout.isatty():
        while unended():
            _show(study)
            time.sleep(EVERY_S)
        _show(study)
        return
    with Live(console=Console(highlight=False), refresh_per_second=1, vertical_overflow="crop") as live:
        live.update(Group(*_pages(study)))
        while unended():
            time.sleep(EVERY_S)
            live.update(Group(*_pages(study)))


def _states(manifest: Manifest) -> list[State]:
    return [state for _, state in manifest.states()]


def _pages(study: str | None) -> list[Any]:
    """What is printed, one after the other."""
    if study is None:
        return [_overview(manifests())]
    manifest = find(study)
    states = manifest.states()
    head = f"{manifest.label}: {in_words(_counts(manifest, [s for _, s in states]))}"
    command = f"asked {manifest.asked}: lab train {' '.join(manifest.words)}"
    failed = [f"{entry.id}: see {entry.folder.log}" for entry, state in states if state.status == "failed"]
    return [head, command, "", _runs(states), *failed]


def _table(*columns: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for column in columns:
        right = column in ("runs", "step", "loss", "took", "tries")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
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
    table = _table(
        "run", *(["stage"] if several else []), "", "state", "step", "loss", "took", "tries", "host", "why"
    )
    for entry, state in states:
        table.add_row(
            entry.id,
            *([entry.stage] if several else []),
            name(entry),
            state.status,
            f"{state.step}/{state.steps}" if state.steps else "–",
            "–" if state.loss is None else f"{state.loss:.4f}",
            "–" if state.seconds is None else duration(state.seconds),
            str(state.attempts or "–"),
            state.host or "–",
            state.reason or "",
        )
    return table
