"""A run's numbers as trackers name them: metrics from a file that is there already, results flat, spikes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.runs.metrics import whole_lines
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


def spike_rows(folder: Path, result: Mapping[str, Any]) -> list[tuple[str, int, str, float | None, float | None]]:
    """The spikes that a result counts: the definition's name, step, which series, its value, learning rate."""
    judged = (result.get("spikes") or {}).get(spikes.LOCAL) or {}
    lines = earlier(folder)
    rows = []
    for name in ("loss", "grad_norm"):
        for step in (judged.get(name) or {}).get("steps", ()):
            line = lines[step - 1] if step <= len(lines) else {}
            rows.append((spikes.LOCAL, step, name, line.get(name), line.get("lr")))
    return sorted(rows, key=lambda row: row[1:3])
