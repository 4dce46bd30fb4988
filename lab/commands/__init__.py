"""One file a subcommand: ``main(argv)`` and, as the first line of its docstring, its help."""

import ast
from pathlib import Path


def listing() -> dict[str, str]:
    """Each command with its one-line help, read from its file without importing it."""
    files = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    return {path.stem: _first_line(path) for path in files}


def _first_line(path: Path) -> str:
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return doc.partition("\n")[0]
