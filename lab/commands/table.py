"""Compare runs: one row a variant, its seeds folded, what differs found out."""

import shutil
import sys
from pathlib import Path

from lab.commands._parser import Parser
from lab.paths import runs_dir
from lab.report.table import as_json, as_text
from lab.runs.store import read_results


def main(argv: list[str]) -> int:
    """Run ``lab table``; the exit status, 1 where there are no runs.

    Raises:
        LabError: a path is missing or cannot be read.
    """
    options = _parser().parse_args(argv)
    paths: list[Path] = options.paths or [runs_dir()]
    if not options.paths and not paths[0].exists():
        return _no_runs(paths)
    records, damaged = read_results(paths)
    for file in damaged:
        print(f"lab table: {file}: not the result of a run, left out", file=sys.stderr)
    if not records:
        return _no_runs(paths)
    if options.format == "json":
        print(as_json(records))
    else:
        print(as_text(records, width=shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    return 0


def _parser() -> Parser:
    parser = Parser(prog="lab table", description=__doc__)
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        type=Path,
        help="a run folder, a folder of them, an outputs folder, or a result.json (default: outputs)",
    )
    parser.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="a table for people, or JSON (default: text)",
    )
    return parser


def _no_runs(paths: list[Path]) -> int:
    print(f"lab table: no runs in {', '.join(map(str, paths))}", file=sys.stderr)
    return 1
