"""A table before it is set in a format: columns, cells as text, notes, and the numbers behind them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

NONE = "–"
"""In the place of a number that is not known."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column."""

    header: str
    """With its unit; a line break is where it may be broken."""
    left: bool = False
    """Set to the left, as words are; numbers are set to the right."""
    group: str = ""
    """Neighbours of one group stay together where a table is too wide for one panel; empty: by itself."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table whose cells are said already, in the characters of plain text."""

    title: str
    """What it shows, in a few words."""
    columns: Sequence[Column]
    """The first names the rows, and is repeated where the others are set in several panels."""
    rows: Sequence[Sequence[str]]
    """Cells in the order of the columns; a number that is not known is ``NONE``."""
    below: Sequence["Grid"] = ()
    """Blocks with rows or columns of their own, of the same runs; of these only title, columns and rows count."""
    notes: Sequence[str] = ()
    """Lines below: what ± means, which test was run, what the rows share, warnings; to be broken at `` · ``."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """All numbers by name, values of each seed among them, for JSON; nothing but finite numbers, text and null."""
    per_seed: Sequence[Mapping[str, Any]] = ()
    """One flat record a variant and seed, with the same keys in each, for CSV."""

    def __post_init__(self) -> None:
        width = len(self.columns)
        assert all(len(row) == width for row in self.rows), f"{self.title}: a row has not {width} cells"

    @property
    def blocks(self) -> tuple["Grid", ...]:
        """This one and those below it."""
        return (self, *self.below)


class Later(Mapping[str, Any]):
    """Numbers that are made when one asks for the first: of a large table that takes longer than all its cells."""

    def __init__(self, make: Callable[[], Mapping[str, Any]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, Any]:
        return self._make()

    def __getitem__(self, key: str) -> Any:
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


class LaterRecords(Sequence[Mapping[str, Any]]):
    """Records that are made when one asks for the first."""

    def __init__(self, make: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Sequence[Mapping[str, Any]]:
        return self._make()

    @overload
    def __getitem__(self, place: int) -> Mapping[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Mapping[str, Any]]: ...

    def __getitem__(self, place: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        return self._made[place]

    def __len__(self) -> int:
        return len(self._made)


def strict(value: Any) -> Any:
    """A value with null in the place of what is not finite, which JSON cannot say."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: strict(part) for key, part in value.items()}
    return [strict(part) for part in value] if isinstance(value, (list, tuple)) else value
