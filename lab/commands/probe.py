"""Ask a trained model questions whose answers are known: word order, agreement, recall."""

import json
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lab import probe
from lab.commands._parser import Parser
from lab.commands._runs import add_run
from lab.probe import published
from lab.progress import progress
from lab.runs.find import find_run

if TYPE_CHECKING:
    from lab.probe._score import Reading
    from lab.training.load import Loaded

ITEMS = 200
"""Questions of each probe, unless told otherwise; of a published set, all."""

PIPE_WIDTH = 120
"""Columns where the output is no terminal."""


def main(argv: list[str]) -> int:
    """Run ``lab probe``; the exit status.

    Raises:
        LabError: there is no such run, it cannot be loaded, or its corpus cannot be had or has changed.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    names = sorted(set(options.only)) if options.only else probe.names()
    if options.file and (len(names) != 1 or names[0] not in published.names()):
        parser.error(f"--file needs one published set, as --only {published.names()[0]}")
    folder = find_run(options.run)

    from lab.config import Device
    from lab.training.load import load_model

    loaded = load_model(folder, device=Device(options.device))
    ours = [name for name in names if name not in published.names()]
    rows = ask(loaded, ours, n=options.items or ITEMS, seed=options.seed) if ours else []
    theirs = [name for name in names if name not in ours]
    rows += [ask_published(loaded, name, options.file, n=options.items, seed=options.seed) for name in theirs]
    facts = {
        "run": folder.path.name,
        "step": loaded.step,
        "seed": options.seed,
        "probes": rows,
    }
    if options.format == "json":
        print(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print_text(facts)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="lab probe",
        description=f"{__doc__} The text is the run's own val and test documents; nothing foreign is used, unless "
        "a published set is named with --only.",
    )
    add_run(parser)
    parser.add_argument(
        "--items",
        metavar="N",
        type=_whole(2),
        help=f"questions of each probe, where the text has as many (default: {ITEMS}; of a published set, all)",
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        choices=[*probe.names(), *published.names()],
        help=f"one probe; may be given again (default: all, {', '.join(probe.names())}); induction and recall "
        f"need no text; {' and '.join(published.names())} are published sets, fetched from the hub into the cache",
    )
    parser.add_argument(
        "--file",
        metavar="FILE",
        nargs="+",
        action="extend",
        default=[],
        help=f"files of the published set, which then needs no network ({', '.join(published.FORMATS)})",
    )
    parser.add_argument("--seed", metavar="N", type=_whole(0), default=0, help="draws the questions (default: 0)")
    parser.add_argument(
        "--device",
        choices=["auto", "cpu", "cuda", "mps"],
        default="auto",
        help="where to compute, in fp32 (default: auto)",
    )
    parser.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="a table for people, or JSON (default: text)",
    )
    return parser


def _whole(least: int) -> Callable[[str], int]:
    """A type of argument: a whole number that is not below ``least``."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ArgumentTypeError(f"'{text}' is not a whole number of {least} or more")
        return int(text)

    return read


def ask(loaded: "Loaded", names: Sequence[str], *, n: int, seed: int) -> list[dict[str, Any]]:
    """Probe a model: one row a probe.

    Raises:
        LabError: the corpus cannot be had or has changed.
    """
    from lab.measure.probes import answers, questions
    from lab.probe._score import facts, n_sequences

    items = questions(loaded, names, n=n, seed=seed)
    with progress("probe: sequences read", sum(map(n_sequences, items.values()))) as bar:
        scores = answers(loaded, items, bar.update)
    return [{"probe": name, "asks": probe.describe(name), **facts(score)} for name, score in scores.items()]


def ask_published(loaded: "Loaded", name: str, files: Sequence[str], *, n: int | None, seed: int) -> dict[str, Any]:
    """Ask a model the questions of a published set, or ``n`` of them: its row.

    Raises:
        LabError: the questions cannot be had, or the corpus cannot be had or has changed.
    """
    from lab.measure.probes import corpus_of, readings
    from lab.probe._score import n_sequences

    asked, rng = published.load(name), published.draw(name, seed)
    sources = asked.sources(files)
    with progress(f"{name}: parts of the set read", len(sources)) as bar:
        rows = published.rows(sources, n, rng, bar.update)

    def read(items: Sequence[probe.Choice]) -> "list[Reading]":
        with progress(f"{name}: sequences read", n_sequences(items)) as bar:
            return readings(loaded, items, bar.update)

    source = probe.Source(loaded.tokenizer, loaded.config.model.max_seq_len, lambda: corpus_of(loaded).train)
    return {"probe": name, "asks": published.describe(name), **asked.answers(rows, source, read, rng)}


def _print_text(facts: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("probe", "items", "accuracy", "95 % interval", "chance", "", "top-1 of vocabulary"):
        table.add_column(title, justify="left" if title in ("probe", "") else "right", no_wrap=True)
    for row in facts["probes"]:
        table.add_row(*_cells(row["probe"], row))
        for part, found in row.get("subsets", {}).items():
            table.add_row(*_cells(f"{row['probe']}, {part}", found))
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    console.print(table)
    lines = [f"run {facts['run']} at step {facts['step']}, questions drawn with seed {facts['seed']}"]
    lines += [f"{row['probe']}: {row['asks']}" for row in facts["probes"]]
    lines += [
        f"{row['probe']}: {said}"
        for row in facts["probes"]
        if row["probe"] in published.names()
        for said in published.load(row["probe"]).says(row)
    ]
    lines += [
        f"{row['probe']}: the text or the model's window is too short for any"
        for row in facts["probes"]
        if not row["items"]
    ]
    console.print("\n" + "\n".join(lines), soft_wrap=True)


def _cells(title: str, row: Mapping[str, Any]) -> list[str]:
    if not row["items"]:
        return [title, "0", *["–"] * 3, "", ""]
    low, high = row["interval"]
    of_all = row["right_of_whole_vocabulary"]
    return [
        title,
        str(row["items"]),
        _percent(row["accuracy"]),
        f"{_percent(low)} to {_percent(high)}",
        "–" if row["chance"] is None else _percent(row["chance"]),
        row["verdict"],
        "" if of_all is None else _percent(of_all / row["items"]),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
