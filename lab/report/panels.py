"""Plain columns: a grid set with blanks, in as many panels as a width asks for."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from lab.report.grid import NONE, Column, Grid

ROOM = 40
"""Beside names of rows that leave less than this, lines are wider than the terminal rather than one column each."""


def text(grid: Grid, *, width: int | None = None) -> str:
    """For a terminal, a pipe or a draft: columns set with blanks.

    Args:
        grid: what is to be shown.
        width: columns of the terminal. A table that is wider is set in panels, one below the other, each with the
            names of the rows. None, as for a file or a pipe, always gives a single panel. Rows are never broken.
    """
    parts = []
    for block in grid.blocks:
        parts += [block.title, *(_set(block, panel) for panel in panels(block, width))]
    lines = [line for note in grid.notes for line in _broken(note, width)]
    return "\n\n".join([*parts, *(["\n".join(lines)] if lines else [])])


def panels(grid: Grid, width: int | None) -> list[list[int]]:
    """Which columns stand beside the first one in each panel; one panel where all fit, or no width is given."""
    others = list(range(1, len(grid.columns)))
    if width is None or not others:
        return [others]
    widths = [max(map(_len, [*_head(column), *_cells(grid, n)])) for n, column in enumerate(grid.columns)]
    room = max(width - widths[0], ROOM)
    found: list[list[int]] = [[]]
    left = room
    for unit in _units(grid.columns, widths, room):
        needs = sum(widths[n] + 2 for n in unit)
        if needs > left and found[-1]:
            found.append([])
            left = room
        found[-1] += unit
        left -= needs
    return found


def _units(columns: Sequence[Column], widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Columns that stay together: those of a group, as far as they fit into one panel."""
    for group, found in groupby(range(1, len(columns)), key=lambda n: columns[n].group):
        together = list(found)
        if group and sum(widths[n] + 2 for n in together) <= room:
            yield together
        else:
            yield from ([n] for n in together)


def _set(grid: Grid, others: Sequence[int]) -> str:
    shown = [0, *others]
    columns = [grid.columns[n] for n in shown]
    bodies = [_cells(grid, n) for n in shown]
    above = headers(columns)
    heads = list(zip(*above, strict=True))
    widths = [max(map(_len, [*head, *body])) for head, body in zip(heads, bodies, strict=True)]

    def line(cells: Sequence[str]) -> str:
        parts = []
        for cell, width, column in zip(cells, widths, columns, strict=True):
            blanks = " " * (width - _len(cell))
            parts.append(cell + blanks if column.left else blanks + cell)
        return "  ".join(parts).rstrip()

    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([*map(line, above), rule, *map(line, zip(*bodies, strict=True))])


def headers(columns: Sequence[Column]) -> list[list[str]]:
    """The headers in lines, from the top; those of fewer lines stand at the bottom."""
    heads = [_head(column) for column in columns]
    tall = max(map(len, heads), default=0)
    return [list(line) for line in zip(*([""] * (tall - len(head)) + head for head in heads), strict=True)]


def _head(column: Column) -> list[str]:
    return column.header.strip("\n").split("\n")


def _cells(grid: Grid, n: int) -> list[str]:
    """The cells of a column; of numbers with something behind them the numbers stand below each other."""
    cells = [row[n] for row in grid.rows]
    if grid.columns[n].left:
        return cells
    split = [re.match(r"(.*?)((?: ±| \[| \().*)?$", cell, re.DOTALL) for cell in cells]
    parts = [(found[1], found[2] or "") if found else (cell, "") for found, cell in zip(split, cells, strict=True)]
    before, behind = (max((_len(part[side]) for part in parts), default=0) for side in (0, 1))
    return [
        first if first == NONE else " " * (before - _len(first)) + first + second + " " * (behind - _len(second))
        for first, second in parts
    ]


def _broken(note: str, width: int | None) -> list[str]:
    """A note in lines, broken between its pieces where it would not fit."""
    if width is None or len(note) <= width:
        return [note]
    first, *rest = note.split(" · ")
    lines = [first]
    for piece in rest:
        longer = f"{lines[-1]} · {piece}"
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(piece)
    return [part for line in lines for part in wrap(line, width, break_on_hyphens=False) or [line]]


def _len(cell: str) -> int:
    """Columns of a terminal that a text takes."""
    if cell.isascii():
        return len(cell)
    from rich.cells import cell_len

    return cell_len(cell)
