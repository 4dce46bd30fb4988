"""A run's numbers as trackers name them: metrics from a file that is there already, results flat, spikes."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.runs.metrics import column, whole_lines
from lab.stats import spikes

LEFT_OUT = ("config", "hashes", "env", "schema", "id")
"""Parts of a result that are no outcome."""


def earlier(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's earlier processes, also of steps that will be trained once more."""
    return whole_lines(folder / "metrics.jsonl")


def numbers(metrics: Mapping[str, float | None]) -> dict[str, float]:
    """A line without its step and without nulls."""
    return {key: value for key, value in metrics.items() if key != "step" and value is not None}


def flat(result: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str | int | float]]:
    """A result's outcomes by their path, as ``parameters/total``; what is not known is left out."""
    for key, value in result.items():
        if not prefix and key in LEFT_OUT:
            continue
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}/")
        elif isinstance(value, str | int | float):
            yield f"{prefix}{key}", value


def spike_rows(folder: Path) -> list[tuple[str, int, str, float | None, float | None]]:
    """Every spike so far: the definition's name, the step, which series, its value, the learning rate."""
    lines = earlier(folder)
    rows = []
    for name in ("loss", "grad_norm"):
        series = column(lines, name)
        judged = spikes.local(spikes.log_norm(series) if name == "grad_norm" else series)
        for at in judged.steps:
            value, lr = series[at], lines[at].get("lr")
            rows.append((spikes.LOCAL, at + 1, name, value if math.isfinite(value) else None, lr))
    return sorted(rows, key=lambda row: row[1:3])
