"""What a sweep or a study consists of: cells, each one run, in stages of which a later one may wait for results."""

from dataclasses import dataclass
from typing import Literal

Role = Literal["report", "tune"]


@dataclass(frozen=True)
class Cell:
    """One run that is asked for."""

    arm: str
    """The variant: a name of the study file, or in a plain sweep the overrides that vary, without the seed."""
    overrides: tuple[str, ...]
    """All that sets the run apart from the defaults, as Hydra takes it: shared settings, the arm's, seed, rate."""
    role: Role = "report"
    """Whether its result is reported, or only helps to choose a learning rate."""
    seed: int | None = None
    """Where a study sets it."""
    lr: float | None = None
    """The learning rate, where the study chooses among several."""


@dataclass(frozen=True)
class Stage:
    """Cells that can run at the same time."""

    name: str
    """For people: ``baseline``, ``tuning``, ``variants``."""
    cells: tuple[Cell, ...]
