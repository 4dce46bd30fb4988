"""A table before it is set in a format: columns, cells as text, notes, and the numbers behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column."""

    header: str
    """With its unit; a line break is where it may be broken."""
    left: bool = False
    """Set to the left, as words are; numbers are set to the right."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table whose cells are said already, in the characters of plain text."""

    title: str
    """What it shows, in a few words."""
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    """Cells in the order of the columns; a number that is not known is an en dash."""
    notes: Sequence[str] = ()
    """Lines below: what ± means, which test was run, what the rows share, warnings."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """All numbers by name, values of each seed among them, for JSON; nothing but finite numbers, text and null."""
    per_seed: Sequence[Mapping[str, Any]] = ()
    """One flat record a variant and seed, with the same keys in each, for CSV."""

    def __post_init__(self) -> None:
        width = len(self.columns)
        assert all(len(row) == width for row in self.rows), f"{self.title}: a row has not {width} cells"
