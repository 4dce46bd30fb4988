"""Curves of many runs thinned for a file: some hundred points each, from which no spike is missing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lab.report.stored import rounded
from lab.report.variants import Record
from lab.stats.spikes import LOCAL

KEYS = ("loss", "grad_norm")
"""The series."""

MOST = 100
"""Points of a curve."""

GRID = 60
"""Of these evenly over the steps, the same in all runs of a study, so that their mean can be drawn."""

ALL = 9_000
"""Points of all curves of a study."""

DIGITS = 5
"""Significant digits of a point."""

Lines = Sequence[Mapping[str, Any]]


def grid(runs: Sequence[Lines]) -> list[int]:
    """Steps evenly over the longest run, fewer where there are many runs."""
    last = max((int(lines[-1]["step"]) for lines in runs if lines), default=0)
    most = max(8, min(GRID, GRID * ALL // (MOST * len(KEYS) * max(1, len(runs)))))
    return [int(step) for step in np.unique(np.linspace(1, last, min(most, last)).round())] if last else []


def curve(lines: Lines, record: Record, at: Sequence[int]) -> dict[str, list[Any]]:
    """The steps of a grid, the last, the highest points and the spikes: of many of these the highest."""
    values = {int(line["step"]): line for line in lines}
    kept = {step for step in at if step in values} | ({max(values)} if values else set())
    room = MOST - GRID
    for key in KEYS:
        known = {step: _height(line[key]) for step, line in values.items() if key in line}
        top = sorted(known, key=lambda step: (-known[step], step))[:1]
        flagged = [step for step in flagged_steps(record, key) or () if step in known]
        kept |= {*top, *sorted(flagged, key=lambda step: (-known[step], step))[: room // len(KEYS) - 1]}
    steps = sorted(kept)
    return {"step": steps, **{key: [rounded(values[s].get(key), DIGITS) for s in steps] for key in KEYS}}


def _height(value: float | None) -> float:
    return float("inf") if value is None else value


def flagged_steps(record: Record, key: str) -> list[int] | None:
    """The steps of the spikes of a series by our own definition, as far as a result names them; else None."""
    part: Any = record.get("spikes")
    for name in (LOCAL, key, "steps"):
        part = part.get(name) if isinstance(part, Mapping) else None
    return [int(step) for step in part] if isinstance(part, Sequence) else None
