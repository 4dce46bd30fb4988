"""Final held-out loss by learning rate: a dot a seed, the mean as a line, diverged seeds counted at the top."""

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
    figure = new_figure(options.style)
    axes = figure.add_subplot()
    scale = line_scale(options.style)
    handles = [_variant(axes, rates, number, scale) for number, rates in enumerate(by_rate.values())]
    axes.set_xscale("log")
    axes.set_xlabel("peak learning rate")
    axes.set_ylabel("final held-out loss\n(nats per token)")
    axes.grid(visible=True)
    _diverged(axes, list(by_rate.values()), scale)
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


def _diverged(axes: "Axes", variants: list[Rates], scale: float) -> None:
    """Mark above the losses where seeds diverged, and how many of how many; a row a variant."""
    with_any = [number for number, rates in enumerate(variants) if any(d for _, d, _ in rates.values())]
    for row, number in enumerate(with_any):
        shown, height = look(number), 1.03 + 0.075 * row
        for rate, (_, diverged, ended) in variants[number].items():
            if diverged:
                axes.plot(
                    [rate],
                    [height],
                    transform=axes.get_xaxis_transform(),
                    marker="x",
                    markersize=3.5 * scale,
                    color=shown.colour,
                    clip_on=False,
                    linestyle="none",
                    gid=f"diverged {number}",
                )
                axes.annotate(
                    f"{diverged}/{ended}",
                    (rate, height),
                    xycoords=axes.get_xaxis_transform(),
                    xytext=(3 * scale, 0),
                    textcoords="offset points",
                    va="center",
                    color=shown.colour,
                    fontsize=7 * scale,
                )
    if with_any:
        axes.text(0, 1.03, "× diverged of ended", transform=axes.transAxes, va="center", fontsize=7 * scale)
