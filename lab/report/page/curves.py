"""Curves for a screen: few points, from which no spike is missing."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.report.rows import one_a_seed
from lab.report.variants import Variant, config_of
from lab.runs.metrics import read_lines

Floats = NDArray[np.float64]
Series = tuple[Floats, Floats]
"""Steps and values; NaN where a value is not finite."""

KEYS = ("loss", "grad_norm")

MOST = 400
"""Points of a curve."""

MOST_TOGETHER = 10_000
"""Points of all means of one chart."""


def read_series(folder: Path) -> dict[str, Series]:
    """Every series of ``KEYS`` and the learning rate that a run logged."""
    file = folder / "metrics.jsonl"
    lines = read_lines(file) if file.exists() else []
    found = {}
    for key in (*KEYS, "lr"):
        kept = [line for line in lines if key in line]
        values = [math.nan if line[key] is None else float(line[key]) for line in kept]
        if kept:
            found[key] = (np.array([line["step"] for line in kept], dtype=np.float64), np.array(values))
    return found


def mean(seeds: Sequence[Series]) -> Series:
    """The mean over seeds at the steps that all have."""
    common = seeds[0][0]
    for steps, _ in seeds[1:]:
        common = np.intersect1d(common, steps)
    rows = [values[np.searchsorted(steps, common)] for steps, values in seeds]
    return common, np.asarray(np.mean(rows, axis=0))


def thinned(series: Series, most: int = MOST) -> Series:
    """At most about ``most`` points: the least and the largest of each stretch, its first gap, and both ends."""
    steps, values = series
    if len(steps) <= most:
        return series
    kept = {0, len(steps) - 1}
    for part in np.array_split(np.arange(len(steps)), max(1, most // 2 - 1)):
        finite = part[np.isfinite(values[part])]
        if len(finite) < len(part):
            kept.add(int(part[~np.isfinite(values[part])][0]))
        if len(finite):
            kept.add(int(finite[values[finite].argmin()]))
            kept.add(int(finite[values[finite].argmax()]))
    index = np.array(sorted(kept))
    return steps[index], values[index]


def charted(variants: Sequence[Variant], series: Mapping[str, Mapping[str, Series]]) -> list[dict[str, Any]]:
    """What the charts draw: each variant's mean and seeds, by key."""
    most = max(60, min(MOST, MOST_TOGETHER // max(1, len(variants))))
    found = []
    for variant in variants:
        runs = [(run, series.get(str(run.get("id")), {})) for run in one_a_seed(variant.records)]
        one: dict[str, Any] = {"name": variant.label, "n": len(runs)}
        for key in KEYS:
            seeds = [(run, each[key]) for run, each in runs if key in each]
            one[key] = {
                "mean": _points(thinned(mean([s for _, s in seeds]), most)) if seeds else None,
                "seeds": [
                    {"seed": config_of(run).get("seed"), "id": run.get("id"), "at": _points(thinned(s, most))}
                    for run, s in seeds
                ]
                if len(seeds) > 1
                else [],
            }
        found.append(one)
    return found


def _points(series: Series) -> list[list[Any]]:
    steps, values = series
    return [[int(s) for s in steps], [float(f"{v:.5g}") if math.isfinite(v) else None for v in values]]
