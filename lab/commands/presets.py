"""List the presets: published architectures, what each is made of, and what is unsure."""

import json
import shutil
import sys
from dataclasses import asdict

from lab.commands._parser import Parser
from lab.report.architecture_table import as_markdown, as_page, as_text
from lab.report.architectures import architectures, names

PIPE_WIDTH = 120


class _Parts(list[str]):
    """Names, any part of which is taken."""

    def __contains__(self, word: object) -> bool:
        return any(str(word) in name for name in self)


def main(argv: list[str]) -> int:
    """Run ``lab presets``; the exit status."""
    options = _parser().parse_args(argv)
    found = architectures()
    asked = [row for row in found if row.name == options.name] or [
        row for row in found if (options.name or "") in row.name
    ]
    width = min(PIPE_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else PIPE_WIDTH
    if options.format == "json":
        print(json.dumps([_json(row) for row in asked], indent=2, ensure_ascii=False))
    elif options.format == "markdown":
        print(as_markdown(asked))
    elif len(asked) == 1:
        print(as_page(asked[0], width))
    else:
        print(as_text(asked, width))
    return 0


def _json(row: object) -> dict[str, object]:
    """A row, without what it does not wait for."""
    facts = asdict(row)  # type: ignore[call-overload]
    return {key: value for key, value in facts.items() if key != "coming" or value is not None}


def _parser() -> Parser:
    parser = Parser(prog="lab presets", description=__doc__)
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        choices=_Parts(names()),
        help="a preset, of which everything is said, or a part of several names: gemma (default: all)",
    )
    parser.add_argument(
        "--format",
        choices=["text", "markdown", "json"],
        default="text",
        help="tables for people, one for a page of documentation, or JSON (default: text)",
    )
    return parser
