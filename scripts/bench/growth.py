"""How time and memory of a step grow with width, depth, length, vocabulary and batch.

    python scripts/bench/growth.py [--json FILE] [--figure FILE] [--axes dim length]

One size is multiplied by up to 100 while the others stay small; each point is a process of its own. The slope of an
axis is that of the logarithms over the upper half of its points: 1 is linear growth. Memory is the peak of the
process less what imports took, so small sizes are a floor of buffers.
"""

import argparse
import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import turns
from contestants import Size

BASE = Size(dim=32, layers=2, heads=1, length=64, batch=4, vocab=512)

AXES = {
    "dim": [16, 32, 64, 128, 256, 512, 1024, 1600],
    "layers": [1, 2, 4, 8, 16, 32, 64, 100],
    "length": [32, 64, 128, 256, 512, 1024, 2048, 3200],
    "vocab": [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 51_200],
    "batch": [1, 2, 4, 8, 16, 32, 64, 100],
}


def measured(axis: str, value: int, steps: int) -> dict[str, Any]:
    """One point: the median of the steps' seconds, the peak of memory."""
    size = replace(BASE, **{axis: value})
    with turns.started(["lab"], {}, size, {"lab": "fp32"}, threads=1) as pipes:
        found = turns.taken(pipes, steps)["lab"]
    seconds = statistics.median(turn["seconds"] for turn in found)
    return {"axis": axis, "value": value, "seconds": seconds, "memory_mib": found[-1]["memory_mib"]}


def slope(rows: list[dict[str, Any]], key: str) -> float:
    """By least squares on logarithms, over the upper half of an axis."""
    upper = rows[len(rows) // 2 :]
    xs, ys = ([math.log(row[name]) for row in upper] for name in ("value", key))
    return float(np.polyfit(xs, ys, 1)[0])


def draw(rows: list[dict[str, Any]], slopes: dict[str, dict[str, float]], file: Path) -> None:
    """Two panels, a line an axis, over the factor by which it was multiplied."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(7, 2.8), layout="constrained")
    for panel, key, label in zip(panels, ("seconds", "memory_mib"), ("ms a step", "peak MiB"), strict=True):
        scale = 1e3 if key == "seconds" else 1
        for marker, (axis, found) in zip("osD^v", slopes.items(), strict=False):
            own = [row for row in rows if row["axis"] == axis]
            xs, ys = [row["value"] / own[0]["value"] for row in own], [scale * row[key] for row in own]
            panel.loglog(xs, ys, marker=marker, markersize=3, linewidth=1, label=f"{axis} (slope {found[key]:.2f})")
        panel.set_xlabel("times the smallest size")
        panel.set_ylabel(label)
        panel.legend(fontsize=6, frameon=False)
        panel.grid(alpha=0.3, linewidth=0.5)
    figure.savefig(file, dpi=200)


def main() -> None:
    """Measure every axis, print slopes, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--axes", nargs="+", choices=list(AXES), default=list(AXES))
    parser.add_argument("--steps", type=int, default=3, help="of each point, after three others (3)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--figure", type=Path, help="draw them to this file")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    slopes: dict[str, dict[str, float]] = {}
    for axis in options.axes:
        own = [measured(axis, value, options.steps) for value in AXES[axis]]
        rows += own
        slopes[axis] = {key: slope(own, key) for key in ("seconds", "memory_mib")}
        times = ", ".join(
            f"{row['value']}: {1e3 * row['seconds']:.0f} ms {row['memory_mib']:.0f} MiB" for row in own
        )
        time, memory = slopes[axis]["seconds"], slopes[axis]["memory_mib"]
        print(f"{axis:8} time ~ {axis}^{time:.2f}, memory ~ {axis}^{memory:.2f}")
        print(f"         {times}", flush=True)
    turns.write(options.json, rows, base=str(BASE), slopes=slopes)
    if options.figure:
        draw(rows, slopes, options.figure)


if __name__ == "__main__":
    main()
