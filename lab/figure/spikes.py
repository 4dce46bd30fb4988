"""Where spikes lie: a row a seed, grouped by variant, loss and gradient norm marked apart, counts at the right."""

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lab.errors import LabError
from lab.figure import Run
from lab.figure._runs import Drawn, grouped, seed_of, series
from lab.figure._style import COLOURS, legend_below, line_scale, new_figure, shortened
from lab.report.rows import within
from lab.report.thinned import KEYS, flagged_steps
from lab.runs.metrics import column
from lab.stats.spikes import LOCAL, local, log_norm

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS = "runs"

GAP = 0.8
"""Between variants, in rows."""


def add_arguments(parser: "ArgumentParser") -> None:
    """No options of its own."""


def draw(options: Namespace) -> "Figure":
    """The steps that ``local`` flags in the loss and in the gradient norm of every run.

    Raises:
        LabError: no run has metrics.
    """
    variants = grouped(options.runs, in_order=options.in_order, most=40)
    n_rows = sum(len(variant.runs) for variant in variants)
    figure = new_figure(options.style, width="text", ratio=0.1 + 0.022 * (n_rows + GAP * len(variants)))
    axes = figure.add_subplot()
    y, middles, last = 0.0, [], 0
    for variant in variants:
        last = max(last, _variant(axes, variant, y, line_scale(options.style)))
        middles.append(y + (len(variant.runs) - 1) / 2)
        y += len(variant.runs) + GAP
    if not last:
        raise LabError("no run has a metrics.jsonl to look for spikes in")
    axes.set_yticks(middles, [shortened(variant.label, width=30, lines=3) for variant in variants])
    axes.tick_params(axis="y", length=0, pad=16 * line_scale(options.style))
    axes.set_ylim(y - GAP - 0.4, -0.6)
    axes.set_xlim(0, last * 1.01)
    axes.set_xlabel(f"step; rows are seeds; spikes by {LOCAL}")
    head = "spikes of loss,\nof norm / judged"
    axes.text(1.01, 1.0, head, transform=axes.transAxes, va="bottom", fontsize=7 * line_scale(options.style))
    _legend(figure, line_scale(options.style))
    return figure


def _variant(axes: "Axes", variant: Drawn, y: float, scale: float) -> int:
    """Draw a variant's seeds, and how many spikes they have; the last step."""
    last, counts, most = 0, [0, 0, 0], 0
    for row, run in enumerate(variant.runs):
        lines = series(run)
        if not lines:
            continue
        last = max(last, int(lines[-1]["step"]))
        axes.plot([0, lines[-1]["step"]], [y + row] * 2, color="#cccccc", linewidth=0.5 * scale, zorder=1)
        axes.text(-0.008, y + row, f"{seed_of(run)}", transform=axes.get_yaxis_transform(), ha="right", va="center")
        for kind, (steps, spikes, judged) in enumerate(_found(run, lines)):
            _marks(axes, steps, y + row, kind, scale)
            counts[kind] += spikes
            most = max(judged, most) if kind else judged
        counts[2] += most
    text = f"{counts[0]}, {counts[1]} / {counts[2]:,}"
    axes.text(1.01, y + (len(variant.runs) - 1) / 2, text, transform=axes.get_yaxis_transform(), va="center")
    return last


def _found(run: Run, lines: list[dict[str, Any]]) -> Iterator[tuple[list[int], int, int]]:
    """Of loss and gradient norm the steps of spikes, how many there are, and how many steps were judged."""
    for key in KEYS:
        if run.lines is not None:  # thinned: its result tells
            spikes, judged = (int(within(run.record, "spikes", LOCAL, key, n) or 0) for n in ("spikes", "counted"))
            yield flagged_steps(run.record, key) or [], spikes, judged
            continue
        values = column(lines, key)
        found = local(values if key == "loss" else log_norm(values))
        yield [lines[step]["step"] for step in found.steps], found.spikes, found.counted


def _marks(axes: "Axes", steps: list[int], y: float, kind: int, scale: float) -> None:
    """Mark steps, of the loss above the line and of the gradient norm below it."""
    if steps:
        axes.plot(
            steps, [y + (-0.18, 0.18)[kind]] * len(steps), gid=("loss", "grad_norm")[kind], **_look(kind, scale)
        )


def _look(kind: int, scale: float) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": ("v", "^")[kind],
        "markersize": 3.6 * scale,
        "color": COLOURS[(1, 0)[kind]],
        "markerfacecolor": (COLOURS[1], "none")[kind],
        "markeredgewidth": 0.8 * scale,
        "zorder": 3,
        "clip_on": False,
    }


def _legend(figure: "Figure", scale: float) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **_look(kind, scale)) for kind in (0, 1)]
    labels = ["spike of the loss", "of the gradient norm"]
    legend_below(figure, handles, labels)
