"""Compare runs: one row a variant, its seeds folded, and what may be said of it."""

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lab.commands._claims import with_claims
from lab.commands._compared import Found, comparison, find
from lab.commands._parser import Parser
from lab.commands._stored import found as found_stored
from lab.commands._stored import load
from lab.commands._stored_files import add_stored
from lab.commands._throughput import Asked, measure_variants
from lab.errors import ConfigError
from lab.paths import runs_dir
from lab.report.comparison import Comparison
from lab.report.formats import FORMATS
from lab.report.grid import Grid
from lab.report.lr_table import lr_sensitivity
from lab.report.main_table import table
from lab.report.panels import text
from lab.report.stability_table import stability
from lab.report.throughput_table import fails, throughput
from lab.runs.store import no_collection

TABLES = {"A": "losses and costs", "B": "stability", "C": "learning rates", "D": "KV cache and throughput"}
"""The letters, and what each table shows."""


@no_collection()
def main(argv: list[str]) -> int:
    """Run ``lab table``; the exit status, 1 where there are no runs.

    Raises:
        LabError: a path is missing or cannot be read, or an option fits no run.
    """
    options = _parser().parse_args(argv)
    words: list[str] = options.paths
    letter = words.pop(0) if words and words[0] in TABLES else "A"
    asked = Asked(batch=options.batch, context=options.context, prompt=options.prompt)
    _check(letter, asked)
    paths = [Path(word) for word in words] or [runs_dir()]
    if options.stored is not None:
        found = _stored(options.stored, letter, words)
    elif not words and not paths[0].exists():
        return _no_runs(paths)
    else:
        found = find(paths, tuning=letter == "C")
    for file in found.damaged:
        print(f"lab table: {file}: not the result of a run, left out", file=sys.stderr)
    if not found.records:
        return _no_runs(paths)
    made = comparison(found, baseline=options.baseline, by=options.by, where=options.where)
    facts = measure_variants(made, asked) if letter == "D" else None
    # For a terminal without quartiles, which would make it too wide.
    wide = options.format != "text"
    grid = _GRIDS[letter](with_claims(made)) if facts is None else throughput(made, facts, quartiles=wide)
    print(_set(grid, options.format))
    for line in found.missing:
        print(f"lab table: {line}", file=sys.stderr)
    return 0 if facts is None else _status(facts)


_GRIDS: dict[str, Callable[[Comparison], Grid]] = {
    "A": table,
    "B": lambda made: stability(made.variants),
    "C": lambda made: lr_sensitivity(made.variants, fresh=made.fresh),
}
"""How the tables are made that take no measuring."""


def _stored(word: str, letter: str, words: list[str]) -> Found:
    """The runs of a stored study, of which no table is made that takes measuring.

    Raises:
        ConfigError: that is asked for, or other runs too.
    """
    if words:
        raise ConfigError(f"--stored {word} and '{words[0]}' exclude each other: name a stored study or paths")
    if letter not in _GRIDS:
        raise ConfigError(f"table {letter} is measured, and cannot be made from a stored study: lab table {letter}")
    return found_stored(load(word), tuning=letter == "C")


def _set(grid: Grid, form: str) -> str:
    """The table in its format; for a terminal no wider than that."""
    if form == "text" and sys.stdout.isatty():
        return text(grid, width=shutil.get_terminal_size().columns)
    return FORMATS[form](grid)


def _check(letter: str, asked: Asked) -> None:
    """Refuse options that are for another table.

    Raises:
        ConfigError: names the first.
    """
    asked.check()
    if letter != "D" and asked.given():
        raise ConfigError(f"{asked.given()[0]} is for table D alone: lab table D")


def _status(facts: Mapping[str, Any]) -> int:
    """1 where a cache is not what its formula says, or nothing could be measured."""
    rows = facts["rows"]
    wrong = [row for row in rows if fails(row)]
    for row in wrong:
        said = f"{row['measured_bytes']:g} B per token and layer, {row['bytes']:g} by its formula"
        print(f"lab table: the cache of {row['variant']} is {said}", file=sys.stderr)
    return int(bool(wrong) or all("reason" in row for row in rows))


def _parser() -> Parser:
    parser = Parser(prog="lab table", description=__doc__)
    letters = ", ".join(f"{letter} {shows}" for letter, shows in TABLES.items())
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help=f"first, if any, which table: {letters} (default: A); then a study by name or folder, a run folder, "
        "a folder of them, an outputs folder, or a result.json (default: outputs)",
    )
    add_stored(parser)
    parser.add_argument(
        "--format",
        choices=list(FORMATS),
        default="text",
        help="for a terminal or a paper, or data: csv has a record a seed, json every number (default: text)",
    )
    parser.add_argument(
        "--baseline",
        metavar="WORDS",
        help="the row that the others are compared with (default: the study's, or the first)",
    )
    parser.add_argument(
        "--by", metavar="KEY", action="append", default=[], help="name rows by this setting alone; repeatable"
    )
    parser.add_argument(
        "--where",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="leave out runs that have another value there; repeatable",
    )
    sizes = parser.add_argument_group("table D, which runs each model with initial weights for seconds")
    sizes.add_argument("--batch", metavar="N", type=int, help="sequences at once, each with a cache (default: 1)")
    sizes.add_argument("--context", metavar="N", type=int, help="tokens of a sequence (default: as trained)")
    sizes.add_argument(
        "--prompt", metavar="N", type=int, help="tokens before the first that is decoded (default: all but 32)"
    )
    return parser


def _no_runs(paths: list[Path]) -> int:
    print(f"lab table: no runs in {', '.join(map(str, paths))}", file=sys.stderr)
    return 1
