"""List the corpora that can be trained on."""

import json
from importlib import metadata
from typing import Any

from lab import choices
from lab.commands._parser import Parser
from lab.data.corpus import CorpusFacts
from lab.data.tokens import cached_sets


def main(argv: list[str]) -> int:
    """Run ``lab data``; the exit status."""
    parser = Parser(prog="lab data", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    say = "list the choices of data: size, documents, licence, source, and whether they are here"
    listing = commands.add_parser("list", help=say, description=f"{say[0].upper()}{say[1:]}.")
    listing.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="a table for people, or JSON (default: text)",
    )
    options = parser.parse_args(argv)
    rows = _rows()
    if options.format == "json":
        print(json.dumps(rows, indent=2))
    else:
        _print_table(rows)
    return 0


def _rows() -> list[dict[str, Any]]:
    """One row a choice of group ``data``; no corpus is read for it."""
    sets = cached_sets()
    rows = []
    for name in choices.names("data"):
        facts: CorpusFacts = choices.load("data", name).FACTS
        rows.append(
            {
                "name": name,
                "size": facts.size,
                "documents": facts.documents,
                "licence": facts.licence,
                "source": facts.source,
                "package": facts.package,
                "installed": None if facts.package is None else _installed(facts.package),
                "token_sets_cached": sets[name],
            }
        )
    return rows


def _installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _here(row: dict[str, Any]) -> str:
    """The last two facts of a row in words."""
    package = {None: "", True: "package installed, ", False: f"pip install {row['package']}, "}[row["installed"]]
    n = row["token_sets_cached"]
    return f"{package}{n or 'no'} token set{'' if n == 1 else 's'}"


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("data", "size", "documents", "licence", "source", "cached"):
        table.add_column(title, overflow="fold")
    for row in rows:
        cells = [row[key] for key in ("name", "size", "documents", "licence", "source")]
        table.add_row(*cells, _here(row))
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = 200  # a pipe has no width: keep a row on one line
    console.print(table)
