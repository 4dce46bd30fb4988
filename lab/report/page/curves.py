"""Curves as the page carries them: packed numbers, which its script thins for the stretch that is looked at."""

import base64
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

MOST = 1_000_000
"""Values of all curves of a page, four bytes each: 200 runs of 2,000 steps stay whole."""

LEAST = 1_000
"""Values that a curve keeps in any case."""


def read_series(folder: Path) -> dict[str, Series]:
    """Every series of ``KEYS`` and the learning rate that a run logged."""
    file = folder / "metrics.jsonl"
    return series_of(read_lines(file) if file.exists() else [])


def series_of(lines: Sequence[Mapping[str, Any]]) -> dict[str, Series]:
    """The same of lines that were read already."""
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
        if not np.array_equal(common, steps):
            common = np.intersect1d(common, steps)
    rows = [values[np.searchsorted(steps, common)] for steps, values in seeds]
    return common, np.asarray(np.mean(rows, axis=0))


def thinned(series: Series, most: int) -> Series:
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


def charted(variants: Sequence[Variant], series: Mapping[str, Mapping[str, Series]]) -> dict[str, Any]:
    """What the charts draw and what can be downloaded: each variant's seeds and their mean, by key."""
    runs = [[(run, series.get(str(run.get("id")), {})) for run in one_a_seed(v.records)] for v in variants]
    longest = max((len(each[key][0]) for group in runs for _, each in group for key in each), default=0)
    curves = len(KEYS) * sum(len(group) + 1 for group in runs)
    most = max(LEAST, MOST // max(1, curves))
    found = [_of(variant, group, most) for variant, group in zip(variants, runs, strict=True)]
    return {"variants": found, "whole": longest <= most, "most": most}


def _of(variant: Variant, runs: Sequence[tuple[Any, Mapping[str, Series]]], most: int) -> dict[str, Any]:
    one: dict[str, Any] = {"name": variant.label, "n": len(runs)}
    for key in KEYS:
        seeds = [(run, each[key]) for run, each in runs if key in each]
        one[key] = {
            # Of a single seed the mean is that seed.
            "mean": packed(thinned(mean([s for _, s in seeds]), most)) if len(seeds) > 1 else None,
            "seeds": [
                {"seed": config_of(run).get("seed"), "run": run.get("id"), "at": packed(thinned(s, most))}
                for run, s in seeds
            ],
        }
    return one


def packed(series: Series) -> dict[str, Any]:
    """Values as 32-bit floats in base64; steps likewise, or only their first and how many where none is missing."""
    steps, values = series
    regular = len(steps) > 0 and bool((np.diff(steps) == 1).all())
    return {
        "first": int(steps[0]) if regular else None,
        "steps": None if regular else _base64(steps, "<i4"),
        "values": _base64(values, "<f4"),
    }


def _base64(values: Floats, kind: str) -> str:
    with np.errstate(over="ignore"):
        return base64.b64encode(values.astype(kind).tobytes()).decode("ascii")


def sampled(series: Series, count: int = 8) -> list[tuple[int, float]]:
    """Some points evenly over a curve, the first and the last among them."""
    steps, values = series
    index = np.unique(np.linspace(0, len(steps) - 1, min(count, len(steps))).round().astype(int))
    return [(int(steps[i]), float(values[i])) for i in index]
