"""What ``-m`` means: every combination of the values given."""

import itertools
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Protocol

from lab.errors import ConfigError
from lab.study.cell import Cell, Stage

Results = Mapping[Cell, dict[str, Any] | None]
"""What ``result.json`` of each cell's run holds."""


class Override(Protocol):
    """What Hydra's parser makes of one argument; its own class does more."""

    def is_sweep_override(self) -> bool:
        """Whether it has several values."""

    def sweep_string_iterator(self) -> Any:
        """Each value as it would be typed."""

    def get_key_element(self) -> str:
        """The key as it would be typed."""

    input_line: str | None


def product(overrides: Sequence[Override]) -> list[list[str]]:
    """One list of overrides for each combination; the last argument varies fastest.

    Raises:
        ConfigError: one of them comes to no value.
    """
    rows = [
        [f"{o.get_key_element()}={value}" for value in o.sweep_string_iterator()]
        if o.is_sweep_override()
        else [str(o.input_line)]
        for o in overrides
    ]
    for override, row in zip(overrides, rows, strict=True):
        if not row:
            raise ConfigError(f"'{override.input_line}' comes to no value, so there is nothing to train")
    return [list(row) for row in itertools.product(*rows)]


def own(words: Sequence[str], others: Sequence[Sequence[str]]) -> list[str]:
    """The words of a run that not all runs have: what sets it apart."""
    return [word for word in words if any(word not in other for other in others)]


def sweep_script(runs: Sequence[Sequence[str]]) -> Generator[Stage, Results, None]:
    """One stage of all runs; a run's arm is what varies, without its seed."""
    cells = []
    for words in runs:
        apart = own(words, runs)
        arm = " ".join(word for word in apart if not word.startswith("seed="))
        cells.append(Cell(arm, tuple(words), seed=_seed(apart)))
    yield Stage("sweep", tuple(cells))


def _seed(words: Sequence[str]) -> int | None:
    seeds = [word.removeprefix("seed=") for word in words if word.startswith("seed=")]
    return int(seeds[0]) if seeds and seeds[0].isdecimal() else None
