"""Curves over steps: each seed thin, their mean thick, spikes marked."""

import math
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lab.component import check_number
from lab.errors import LabError
from lab.figure import Run
from lab.figure._runs import Drawn, grouped, series
from lab.figure._style import legend_below, line_scale, look, new_figure
from lab.report.thinned import flagged_steps
from lab.stats.spikes import LOCAL, local

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
SPIKE = "v"
"""Its marker, which no variant has."""

Judged = Callable[[Floats], Floats]
"""From a series to what is judged for spikes."""


@dataclass(frozen=True)
class Curve:
    """One seed's series."""

    steps: Floats
    values: Floats
    """NaN where a value is not finite."""
    flagged: tuple[int, ...] | None = None
    """Places of the spikes where they are known; None: the series is judged."""


def add_arguments(parser: "ArgumentParser") -> None:
    """How curves are smoothed, and where they begin; by default they are drawn as they are."""
    parser.add_argument(
        "--smooth",
        metavar="N",
        type=int,
        default=1,
        help="draw the mean of the latest N steps, and say so; spikes are found before it (default: 1, none)",
    )
    parser.add_argument(
        "--from",
        dest="first",
        metavar="STEP",
        type=int,
        default=0,
        help="leave out the steps before it, so that what follows has all the room (default: 0)",
    )


def curves(variant: Drawn, key: str, *, finished: bool = False) -> list[Curve]:
    """The seeds of a variant that logged this series; where some finished, these alone if that is asked for."""
    found = []
    done = [run for run in variant.runs if run.record["status"] == "done"]
    for run in done if finished and done else variant.runs:
        lines = [line for line in series(run) if key in line]
        values = [math.nan if line[key] is None else float(line[key]) for line in lines]
        if lines:
            steps = np.array([line["step"] for line in lines], dtype=np.float64)
            found.append(Curve(steps, np.array(values), _known(run, key, steps)))
    return found


def _known(run: Run, key: str, steps: Floats) -> tuple[int, ...] | None:
    """Where the spikes of a stored series are, which is thinned and cannot be judged again."""
    if run.lines is None:
        return None
    return tuple(int(place) for place in np.flatnonzero(np.isin(steps, flagged_steps(run.record, key) or [])))


def mean(seeds: list[Curve]) -> Curve:
    """The mean over seeds, at the steps that all of them have."""
    common = sorted(set.intersection(*(set(seed.steps.tolist()) for seed in seeds)))
    rows = [seed.values[np.isin(seed.steps, common)] for seed in seeds]
    return Curve(np.array(common), np.asarray(np.mean(rows, axis=0)) if common else np.array([]))


def smoothed(values: Floats, width: int) -> Floats:
    """The mean of the latest ``width`` values, of fewer at the beginning."""
    if width == 1 or not values.size:
        return values
    totals = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, values.size + 1)
    start = np.maximum(end - width, 0)
    return np.asarray((totals[end] - totals[start]) / (end - start))


def draw_curves(
    options: Namespace, key: str, label: str, *, judged: Judged, held_out: bool
) -> tuple["Figure", "Axes"]:
    """Draw a series of all variants.

    Raises:
        LabError: no run has it, or an option is out of range.
    """
    check_number("--smooth", options.smooth, least=1)
    check_number("--from", options.first, least=0)
    if options.smooth > 1 and any(run.lines is not None for run in options.runs):
        raise LabError("--smooth takes the mean of every step, and stored curves are thinned: leave it out")
    figure = new_figure(options.style)
    axes = figure.add_subplot()
    handles: list[Any] = []
    labels: list[str] = []
    marks = {"spikes": False, "held out": False}
    for number, variant in enumerate(grouped(options.runs, in_order=options.in_order)):
        seeds = curves(variant, key)
        if not any(seed.steps[-1] >= options.first for seed in seeds):
            continue
        marks["spikes"] |= _seeds(axes, seeds, number, options, judged)
        handles.append(_mean(axes, curves(variant, key, finished=True) or seeds, number, options))
        labels.append(_label(variant))
        points = curves(variant, "val_loss", finished=True) if held_out else []
        if points:
            handles[-1] = (handles[-1], _held_out(axes, points, number, options))
            marks["held out"] = True
    if not handles:
        since = f" from step {options.first} on" if options.first else ""
        raise LabError(f"no run has {key} in its metrics.jsonl{since}")
    axes.set_xlabel("step")
    axes.set_ylabel(label + (f"\n(mean of {options.smooth} steps)" if options.smooth > 1 else ""))
    axes.grid(visible=True)
    axes.margins(x=0.01)
    _legend(figure, handles, labels, marks, options.style)
    return figure, axes


def _label(variant: Drawn) -> str:
    """With the number of seeds, and of those that did not finish."""
    counts = Counter(str(run.record["status"]) for run in variant.runs)
    others = [f"{count} {status}" for status, count in sorted(counts.items()) if status != "done"]
    return f"{variant.label} (n = {', '.join([str(counts['done']), *others])})"


def _seeds(axes: "Axes", seeds: list[Curve], number: int, options: Namespace, judged: Judged) -> bool:
    """Draw each seed and mark its spikes; whether there were any."""
    scale, seen = line_scale(options.style), False
    for seed in seeds:
        values = smoothed(seed.values, options.smooth)
        colour, kept = look(number).colour, seed.steps >= options.first
        axes.plot(
            seed.steps[kept],
            values[kept],
            color=colour,
            linewidth=0.5 * scale,
            alpha=0.5,
            gid=f"seed {number}",
            zorder=2,
        )
        flagged = local(judged(seed.values)).steps if seed.flagged is None else seed.flagged
        at = [step for step in flagged if kept[step] and np.isfinite(values[step])]
        if at:
            axes.plot(
                seed.steps[at], values[at], **_open(SPIKE, colour, 4, scale), gid=f"spikes {number}", zorder=4
            )
            seen = True
    return seen


def _mean(axes: "Axes", seeds: list[Curve], number: int, options: Namespace) -> Any:
    """Draw the mean over seeds."""
    curve, shown = mean(seeds), look(number)
    kept = curve.steps >= options.first
    values = smoothed(curve.values, options.smooth)[kept]
    zorder = 3.0 if shown.line == "-" else 3.1  # through the gaps one sees what lies below
    (line,) = axes.plot(
        curve.steps[kept], values, color=shown.colour, linestyle=shown.line, gid=f"mean {number}", zorder=zorder
    )
    return line


def _held_out(axes: "Axes", seeds: list[Curve], number: int, options: Namespace) -> Any:
    """Draw the mean held-out losses as points."""
    curve, shown = mean(seeds), look(number)
    kept = curve.steps >= options.first
    (points,) = axes.plot(
        curve.steps[kept],
        curve.values[kept],
        gid=f"held out {number}",
        zorder=5,
        clip_on=False,
        **_open(shown.marker, shown.colour, 3.5, line_scale(options.style)),
    )
    return points


def _open(marker: str, colour: str, size: float, scale: float) -> dict[str, Any]:
    """A hollow marker."""
    return {
        "marker": marker,
        "markersize": size * scale,
        "markerfacecolor": "none",
        "markeredgecolor": colour,
        "markeredgewidth": 0.8 * scale,
        "linestyle": "none",
    }


def _legend(figure: "Figure", handles: list[Any], labels: list[str], marks: dict[str, bool], style: str) -> None:
    """What is drawn: the variants, and what thin lines and marks are."""
    from matplotlib.lines import Line2D

    grey, scale = "#555555", line_scale(style)
    thin = Line2D([], [], color=grey, linewidth=0.5 * scale)
    handles, labels = [*handles, thin], [*labels, "one seed; thick: mean"]
    if marks["held out"]:
        handles.append(Line2D([], [], **_open("o", grey, 3.5, scale)))
        labels.append("held-out loss, mean")
    if marks["spikes"]:
        handles.append(Line2D([], [], **_open(SPIKE, grey, 4, scale)))
        labels.append(f"spike, {LOCAL}")
    legend_below(figure, handles, labels)
