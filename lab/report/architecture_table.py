"""Architectures as text for a terminal, as one table in Markdown, and one of them in full."""

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.report.architectures import COLUMNS, Architecture, load

CORRECTED, UNVERIFIED, COMING = "*", "†", "‡"

_PANELS = (
    ("norm", "block", "activation", "bias", "init"),
    ("attn", "position", "stability"),
    ("embeddings", "vocabulary", "regularization", "source"),
)
"""Columns that stand side by side; every panel has all rows."""

SYMBOLS = (
    f"{CORRECTED} the lecture notes differ, see below · {UNVERIFIED} from memory, not read in a source · "
    f"{COMING} waits for a component"
)
LEGEND = (
    "feed-forward: width over that of the model · attention: query heads for each key/value head; "
    "D: width of the model, T: length of a sequence"
)


def as_text(rows: Sequence[Architecture], width: int) -> str:
    """Tables one above the other, and what the marks mean."""
    tables = [_panel(rows, columns, width) for columns in _PANELS]
    return "\n\n".join([*tables, _wrapped("\n".join([SYMBOLS, LEGEND, *_footnotes(rows)]), width)])


def as_markdown(rows: Sequence[Architecture]) -> str:
    """A page with one wide table."""
    heads = ["name", "year", *COLUMNS.values()]
    lines = [
        "# Presets",
        "",
        "Written by `lab presets --format markdown`. `lab train preset=NAME` trains one at the sizes of `model`, "
        "with `preset_size=published` at those of the smallest published model.",
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
    ]
    for row in rows:
        cells = [_name(row), str(row.year), *(marked(row, column) for column in COLUMNS)]
        lines.append(f"| {' | '.join(cell.replace('|', '/').replace('*', chr(92) + '*') for cell in cells)} |")
    lines += ["", f"{SYMBOLS.replace('*', chr(92) + '*')}.", "", f"{LEGEND}.", ""]
    lines += [f"- {note.replace('* ', '', 1)}" for note in _footnotes(rows)]
    return "\n".join(lines)


def as_page(row: Architecture, width: int) -> str:
    """Everything that is known of one."""
    lines = [("preset", f"{row.name}: {row.title}, {row.year}")]
    lines += [("use", row.coming or f"lab train preset={row.name}")]
    lines += [(heading, marked(row, column)) for column, heading in COLUMNS.items() if row.cells[column]]
    if row.coming is None:
        said = load(f"preset/{row.name}")["preset"]
        lines += [("values", _settings(said["values"]))]
    if row.published:
        mark = UNVERIFIED if "published" in row.unverified else ""
        lines += [("published", _settings(row.published) + mark)]
    lines += [("note", note) for note in row.notes]
    lines += [(f"{CORRECTED} {_short(column)}", said) for column, said in row.corrects.items()]
    if row.unverified:
        lines += [(UNVERIFIED, "from memory, not read in a source")]
    return _render(("", ""), lines, width, head=False)


def marked(row: Architecture, column: str) -> str:
    """A cell with its marks."""
    cell = row.cells[column] or "–"
    marks = (CORRECTED if column in row.corrects else "") + (UNVERIFIED if column in row.unverified else "")
    return f"{cell}{marks}"


def _name(row: Architecture) -> str:
    return row.name + (COMING if row.coming else "")


def _short(column: str) -> str:
    return COLUMNS[column].partition(",")[0]


def _footnotes(rows: Sequence[Architecture]) -> Iterator[str]:
    for row in rows:
        for column, said in row.corrects.items():
            yield f"{CORRECTED} {row.name}, {_short(column)}: {said}"
    for row in rows:
        if row.coming:
            yield f"{COMING} {row.name} {row.coming}"


def _settings(values: Mapping[str, Any]) -> str:
    words = {"None": "null", "True": "true", "False": "false"}
    return ", ".join(f"{key} {words.get(str(value), value)}" for key, value in values.items())


def _panel(rows: Sequence[Architecture], columns: Sequence[str], width: int) -> str:
    body = [(_name(row), str(row.year), *(marked(row, column) for column in columns)) for row in rows]
    return _render(("name", "year", *(COLUMNS[column] for column in columns)), body, width, head=True)


def _render(heads: Sequence[str], body: Sequence[Sequence[str]], width: int, *, head: bool) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD if head else None,
        show_header=head,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for number, title in enumerate(heads):
        table.add_column(Text(title), no_wrap=number == 0, overflow="fold")
    for line in body:
        table.add_row(*(Text(cell) for cell in line))
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, force_terminal=False, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _wrapped(text: str, width: int) -> str:
    from textwrap import wrap

    return "\n".join(line for long in text.splitlines() for line in wrap(long, width, subsequent_indent="  "))
