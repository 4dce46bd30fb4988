"""Differences from the baseline: a dot a seed, mean and family-wise interval, MDE band, verdict at the right."""

import math
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from lab.errors import LabError
from lab.figure._style import COLOURS, legend_below, line_scale, new_figure, shortened
from lab.report.effects import Effect, Effects
from lab.stats.digits import two

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS = "comparison"

UNITS = {"final_loss": "final loss (nats per token)", "bits_per_byte": "bits per byte"}
"""Metrics in words."""


def add_arguments(parser: "ArgumentParser") -> None:
    """The option that names the baseline."""
    parser.add_argument(
        "--baseline", metavar="WORDS", help="words of the row to compare with (default: the study's)"
    )


def draw(options: Namespace) -> "Figure":
    """All contrasts of a table.

    Raises:
        LabError: there is nothing to compare.
    """
    found: Effects | None = options.comparison.effects
    if found is None or all(row.contrast is None for row in found.rows):
        raise LabError("nothing to compare: it takes a baseline and a variant of two finished seeds each")
    scale = line_scale(options.style)
    figure = new_figure(options.style, width="text", ratio=0.11 + 0.06 * len(found.rows))
    axes = figure.add_subplot()
    if found.mde is not None:
        axes.axvspan(-found.mde, found.mde, color="#e6e6e6", linewidth=0, zorder=0, gid="mde")
    axes.axvline(0, color="#555555", linewidth=0.8 * scale, zorder=1)
    for y, row in enumerate(found.rows):
        _row(axes, row, y, scale)
    axes.set_yticks(range(len(found.rows)), [shortened(row.label, width=30) for row in found.rows])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(found.rows) - 0.5, -0.5)
    axes.margins(x=0.04)
    metric = UNITS.get(found.metric, found.metric)
    axes.set_xlabel(f"Δ {metric} against {shortened(found.baseline, width=40, lines=1)}; negative is better")
    _legend(figure, found, scale)
    return figure


def _row(axes: "Axes", row: Effect, y: int, scale: float) -> None:
    seeds = list(row.differences.values())
    axes.plot(seeds, [y] * len(seeds), gid=f"seeds {y}", **_dots(scale))
    if row.contrast is not None:
        low, high = row.contrast.family_interval
        if math.isfinite(low) and math.isfinite(high):
            axes.plot([low, high], [y, y], color=COLOURS[0], linewidth=1.2 * scale, zorder=2, gid=f"interval {y}")
        axes.plot([row.contrast.mean], [y], gid=f"mean {y}", **_mean(scale))
    said = row.verdict or "no verdict"
    if row.diverged and "diverged" not in said:
        said += f"; {row.diverged} of {row.ended} diverged"
    said += "" if row.is_paired else "; not paired"
    transform = axes.get_yaxis_transform()
    axes.text(1.02, y, shortened(said, width=32), transform=transform, va="center", fontsize=7 * min(scale, 2.0))


def _dots(scale: float) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": "o",
        "markersize": 3 * scale,
        "markerfacecolor": "none",
        "markeredgecolor": COLOURS[1],
        "markeredgewidth": 0.7 * scale,
        "zorder": 4,
    }


def _mean(scale: float) -> dict[str, Any]:
    return {"linestyle": "none", "marker": "D", "markersize": 4 * scale, "color": COLOURS[0], "zorder": 3}


def _legend(figure: "Figure", found: Effects, scale: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    level = f"{100 * (1 - found.stats.alpha):g} %"
    mean = _mean(scale) | {"linestyle": "-", "linewidth": 1.2 * scale}
    handles: list[Any] = [
        Line2D([], [], **_dots(scale)),
        Line2D([], [], **mean),
    ]
    labels = ["a seed, paired", f"mean, interval at {level} for all {found.m}"]
    if found.mde is not None:
        handles.append(Patch(color="#e6e6e6"))
        labels.append(f"below the MDE, {two(found.mde)}")
    legend_below(figure, handles, labels)
