"""Compare runs: one row a variant, its seeds folded, what differs found out."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.commands._parser import Parser
from lab.paths import runs_dir
from lab.report.table import as_json, as_text
from lab.runs.store import read_results
from lab.study.manifest import named
from lab.study.manifest import read as read_manifest
from lab.study.state import counts


def main(argv: list[str]) -> int:
    """Run ``lab table``; the exit status, 1 where there are no runs.

    Raises:
        LabError: a path is missing or cannot be read.
    """
    options = _parser().parse_args(argv)
    paths: list[Path] = options.paths or [runs_dir()]
    if not options.paths and not paths[0].exists():
        return _no_runs(paths)
    records, damaged, missing, studies = _read(paths)
    for file in damaged:
        print(f"lab table: {file}: not the result of a run, left out", file=sys.stderr)
    if not records:
        return _no_runs(paths)
    if options.format == "json":
        print(as_json(records, in_order=studies))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(as_text(records, width=width, in_order=studies))
    for line in missing:
        print(f"lab table: {line}", file=sys.stderr)
    return 0


def _read(paths: Sequence[Path]) -> tuple[list[dict[str, Any]], list[Path], list[str], bool]:
    """The results under the paths, files that are none, what studies still lack, and whether all paths are studies.

    Raises:
        LabError: a path is missing or cannot be read.
    """
    folders: list[Path] = []
    missing: list[str] = []
    studies = True
    for path in paths:
        manifest = read_manifest(path) if path.is_dir() else None if path.exists() else named(str(path))
        if manifest is None:
            folders.append(path)
            studies = False
            continue
        runs = {entry.id: entry for entry in manifest.runs if entry.cell.role == "report"}
        folders += [entry.folder.path for entry in runs.values() if entry.folder.result() is not None]
        found = counts(state for _, state in manifest.states())
        left = manifest.expected - found.get("done", 0) - found.get("diverged", 0)
        if left > 0:
            missing.append(
                f"{manifest.label} is not complete: {left} of {manifest.expected} runs have no result; "
                f"lab resume {manifest.label}"
            )
    records, damaged = read_results(folders)
    return records, damaged, missing, studies


def _parser() -> Parser:
    parser = Parser(prog="lab table", description=__doc__)
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        type=Path,
        help="a study by name or folder, a run folder, a folder of them, an outputs folder, or a result.json "
        "(default: outputs)",
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
