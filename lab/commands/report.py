"""Write one HTML file about runs: tables, curves to look into, spikes with their text."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.commands._claims import with_claims
from lab.commands._compared import Found, comparison, find
from lab.commands._parser import Parser
from lab.commands._stored import found as found_stored
from lab.commands._stored import load
from lab.commands._stored_files import add_stored
from lab.errors import ConfigError, LabError
from lab.files import write_atomically
from lab.paths import runs_dir
from lab.report.grid import Grid
from lab.report.lr_table import lr_sensitivity
from lab.report.main_table import table
from lab.report.rows import within
from lab.report.stability_table import stability

NO_RATES = "Table C (learning rates) is left out: no variant was run at several learning rates."
NO_CACHE = "Table D (KV cache and throughput) is left out: it is measured, not read from runs, by lab table D."


def main(argv: list[str]) -> int:
    """Run ``lab report``; the exit status, 1 where there are no runs.

    Raises:
        LabError: a path is missing, plotly is missing, or the file cannot be written.
    """
    options = _parser().parse_args(argv)
    if options.stored is not None:
        text = _stored(options.stored, options.paths)
    else:
        paths: list[Path] = options.paths or [runs_dir()]
        found = find(paths) if options.paths or paths[0].exists() else Found()
        for file in found.damaged:
            print(f"lab report: {file}: not the result of a run, left out", file=sys.stderr)
        if not found.records:
            print(f"lab report: no runs in {', '.join(map(str, paths))}", file=sys.stderr)
            return 1
        title = "Runs of " + ", ".join(path.name or str(path) for path in paths)
        tuned = (lambda: find(paths, tuning=True)) if found.manifest is not None else (lambda: found)
        folders = zip(found.records, found.folders, strict=True)
        text = _page(found, tuned, title, folders={str(record["id"]): folder for record, folder in folders})
    try:
        write_atomically(options.output, text.encode())
    except OSError as error:
        raise LabError(f"{options.output}: cannot be written ({error.strerror})") from error
    print(options.output)
    return 0


def _stored(word: str, paths: list[Path]) -> str:
    """The page of a stored study, whose curves are thinned and whose batches nobody has kept.

    Raises:
        LabError: it is not there, or other runs are named too.
    """
    for path in paths:
        raise ConfigError(f"--stored {word} and '{path}' exclude each other: name a stored study or paths")
    kept = load(word)
    found = found_stored(kept)
    found.missing.append("from a stored study: curves are thinned, every flagged step is kept up to a limit")
    lines = {run.id: run.lines() for run in kept.runs}
    return _page(found, lambda: found_stored(kept, tuning=True), kept.stem, lines=lines)


def _page(
    found: Found,
    tuned: Callable[[], Found],
    title: str,
    *,
    folders: Mapping[str, Path] | None = None,
    lines: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> str:
    """The page.

    Args:
        found: runs that are reported.
        tuned: gives these and those that only helped to choose a learning rate.
        title: where no study was named.
        folders: of the runs by id.
        lines: of the runs that have no folders, their metrics.
    """
    from lab.report.page.build import Page, build

    manifest = found.manifest
    plain = comparison(found)
    compared = with_claims(plain)
    declared = manifest.declared if manifest else None
    rates = _rates(tuned())
    page = Page(
        title=manifest.label if manifest else title,
        question=str((declared or {}).get("question") or ""),
        declared=declared,
        variants=compared.variants,
        # Claims have a section of their own: their lines need not stand below the table too.
        grids=[
            table(replace(compared, lines=plain.lines, judged=())),
            stability(compared.variants),
            *([rates] if rates else []),
        ],
        folders=folders or {},
        lines=lines or {},
        claims=compared.claims,
        absent=[*([] if rates else [NO_RATES]), NO_CACHE],
        notes=found.missing,
    )
    return build(page)


def _rates(found: Found) -> Grid | None:
    """Table C, of the runs that a study tuned with too; None where no variant has several learning rates."""
    if len({within(record["config"], "optim", "lr") for record in found.records}) < 2:
        return None
    compared = comparison(found)
    made = lr_sensitivity(compared.variants, fresh=compared.fresh)
    return made if any(len(row["lrs"]) > 1 for row in made.data["rows"]) else None


def _parser() -> Parser:
    parser = Parser(prog="lab report", description=f"{__doc__} It asks for nothing from outside.")
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        type=Path,
        help="a study by name or folder, a run folder, a folder of them, or an outputs folder (default: outputs)",
    )
    add_stored(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        default=Path("report.html"),
        help="the file to write (default: report.html)",
    )
    return parser
