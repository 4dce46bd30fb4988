"""What is left of a study: its stages, the runs that are done already, and how long the others take."""

import heapq
import math
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.study.cell import Cell, Stage
from lab.study.expand import Results
from lab.study.script import BASELINE, loss
from lab.study.study import Study

RHOS = (0.0, 0.5, 0.8)
"""Correlations over seeds that a plan shows: nothing shared, planned with, the best that was seen."""

SEEDS = (3, 5, 8, 12, 16)
"""Numbers of report seeds that a plan shows."""


@dataclass(frozen=True)
class Ahead:
    """A stage as far as it can be told."""

    stage: Stage
    """Its runs; where earlier results are missing, learning rates are stand-ins from the middle of the grid."""
    done: tuple[bool, ...]
    """Of each run, whether it has ended."""

    @property
    def left(self) -> list[Cell]:
        """What is to be trained."""
        return [cell for cell, done in zip(self.stage.cells, self.done, strict=True) if not done]


@dataclass(frozen=True)
class Forecast:
    """A study as far as it can be told."""

    stages: tuple[Ahead, ...]
    """In their order, without those that an edge of the grid may add."""
    floor: tuple[float | None, ...]
    """Losses of the baseline's report seeds that have ended; +inf where one diverged."""


def forecast(
    study: Study,
    stages: Generator[Stage, Results, None],
    ended: Callable[[Cell], Mapping[str, Any] | None],
) -> Forecast:
    """Go through a script with the results that are there, and stand-ins from the first stage that lacks one.

    Args:
        study: at its tier.
        stages: its script.
        ended: the result of a run, None where it has not ended.
    """
    ahead: list[Ahead] = []
    floor: list[float | None] = []
    known = True
    try:
        stage = next(stages)
        while True:
            found = {cell: ended(cell) for cell in stage.cells}
            if known or not _extends(stage):
                ahead.append(Ahead(stage, tuple(result is not None for result in found.values())))
            if stage.name == BASELINE and known:
                floor = [loss(result, study.primary) for result in found.values() if result is not None]
            known = known and None not in found.values()
            results = {cell: dict(result) for cell, result in found.items() if result is not None}
            stage = stages.send({**results} if known else {cell: _stand_in(study, cell) for cell in found})
    except StopIteration:
        return Forecast(tuple(ahead), tuple(floor))


def _extends(stage: Stage) -> bool:
    """Whether the stage goes beyond the grid."""
    return re.search(r"tuning \d+$", stage.name) is not None


def _stand_in(study: Study, cell: Cell) -> dict[str, Any]:
    """A result by which the rate in the middle of the grid is best."""
    middle = study.lr.grid[len(study.lr.grid) // 2] if cell.role == "tune" else None
    off = abs(math.log(cell.lr / middle)) if middle and cell.lr else 0.0
    return {"status": "done", study.primary: off}


def wall_s(stages: Iterable[Sequence[float]], *, workers: int) -> float:
    """How long runs take side by side, given what each takes, in their order; a stage waits for the one before."""
    total = 0.0
    for seconds in stages:
        free = [0.0] * workers
        for one in seconds:
            heapq.heapreplace(free, free[0] + one)
        total += max(free)
    return total
