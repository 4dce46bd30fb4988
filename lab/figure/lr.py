"""Final held-out loss by learning rate: a dot a seed, the mean as a line; above, how many seeds diverged."""

import statistics
from argparse import Namespace
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lab.errors import LabError
from lab.figure import Run
from lab.figure._runs import Drawn, grouped
from lab.figure._style import decimal_log, legend_below, line_scale, look, new_figure
from lab.report.rows import within
from lab.report.variants import config_of

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS = "runs"
EVERY_STAGE = True


def add_arguments(parser: "ArgumentParser") -> None:
    """No options of its own."""


def draw(options: Namespace) -> "Figure":
    """Losses of all variants, taken apart from their learning rates.

    Raises:
        LabError: no run has a learning rate.
    """
    by_rate = _by_variant(options)
    if not by_rate:
        raise LabError("no run has finished or diverged with a learning rate")
    figure, scale = new_figure(options.style), line_scale(options.style)
    axes = _with_strip(figure, list(by_rate.values()), scale)
    handles = [_variant(axes, rates, number, scale) for number, rates in enumerate(by_rate.values())]
    axes.set_xscale("log")
    axes.set_xlabel("peak learning rate")
    axes.set_ylabel("final held-out loss\n(nats per token)")
    axes.grid(visible=True)
    decimal_log(axes.xaxis)
    legend_below(figure, handles, [*by_rate])
    return figure


Rates = dict[float, tuple[list[float], int, int]]
"""Learning rate to the losses of finished seeds, how many diverged, and how many ended."""


def _by_variant(options: Namespace) -> dict[str, Rates]:
    rates = {}
    by_rate: dict[float, list[Run]] = defaultdict(list)
    for run in options.runs:
        rate = within(run.record, "config", "optim", "lr")
        if rate is not None and run.record["status"] in ("done", "diverged"):
            by_rate[float(rate)].append(replace(run, record=_at_no_rate(run)))
    flat = [(rate, run) for rate, runs in sorted(by_rate.items()) for run in runs]
    of = {id(run.record): rate for rate, run in flat}
    for variant in grouped([run for _, run in flat], in_order=options.in_order, one_seed=False):
        rates[variant.label] = _rates(variant, of)
    return rates


def _at_no_rate(run: Run) -> dict[str, Any]:
    """The record without its rate, so that variants are compared in all else."""
    config = config_of(run.record)
    return {**run.record, "config": {**config, "optim": {**config["optim"], "lr": None}}}


def _rates(variant: Drawn, of: dict[int, float]) -> Rates:
    found: Rates = {}
    for rate in sorted({of[id(run.record)] for run in variant.runs}):
        here = [run.record for run in variant.runs if of[id(run.record)] == rate]
        losses = [loss for r in here if r["status"] == "done" and (loss := within(r, "final_loss")) is not None]
        found[rate] = (losses, sum(r["status"] == "diverged" for r in here), len(here))
    return found


def _variant(axes: "Axes", rates: Rates, number: int, scale: float) -> Any:
    """Draw a variant; the handle of its legend."""
    from matplotlib.lines import Line2D

    shown = look(number)
    dots = [(rate, loss) for rate, (losses, _, _) in rates.items() for loss in losses]
    means = [(rate, statistics.mean(losses)) for rate, (losses, _, _) in rates.items() if losses]
    for points, style in (
        (dots, {"marker": shown.marker, "linestyle": "none", "alpha": 0.6, "markersize": 2.6 * scale}),
        (means, {"linestyle": shown.line}),
    ):
        x, y = zip(*points, strict=True) if points else ((), ())
        axes.plot(x, y, color=shown.colour, gid=f"{'mean' if 'marker' not in style else 'seeds'} {number}", **style)
    return Line2D([], [], color=shown.colour, linestyle=shown.line, marker=shown.marker, markersize=2.6 * scale)


def _with_strip(figure: "Figure", variants: list[Rates], scale: float) -> "Axes":
    """The axes of the losses; above them, where seeds diverged, a strip with a row for each such variant."""
    with_any = [number for number, rates in enumerate(variants) if any(d for _, d, _ in rates.values())]
    if not with_any:
        return figure.add_subplot()
    axes: Axes
    height, strip = figure.get_figheight(), ROW_INCHES * scale * (len(with_any) + 1)
    figure.set_figheight(height + strip)
    above, axes = figure.subplots(2, 1, sharex=True, height_ratios=(strip, height))
    for row, number in enumerate(with_any, 1):
        _row(above, variants[number], row, number, scale)
    above.set_ylim(len(with_any) + 0.5, -0.5)
    above.axis("off")
    above.text(
        0, 0, "diverged, of how many", transform=above.get_yaxis_transform(), va="center", fontsize=7 * scale
    )
    return axes


ROW_INCHES = 0.13
"""Of the strip, for paper."""


def _row(axes: "Axes", rates: Rates, row: int, number: int, scale: float) -> None:
    shown = look(number)
    for rate, (_, diverged, ended) in rates.items():
        if diverged:
            style: dict[str, Any] = {"marker": shown.marker, "markersize": 3 * scale, "linestyle": "none"}
            axes.plot([rate], [row], color=shown.colour, gid=f"diverged {number}", **style)
            axes.annotate(
                f"{diverged}/{ended}",
                (rate, row),
                xytext=(3.5 * scale, 0),
                textcoords="offset points",
                va="center",
                color=shown.colour,
                fontsize=7 * scale,
                annotation_clip=False,
            )
