"""Learning rate and weight decay over the steps of a run, with the schedule's phases."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.figure._style import legend_below, look, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lab.config import RunConfig

NEEDS = "overrides"
SAME = 1e-9
"""Change of the factor in a step below which the rate stays."""


def add_arguments(parser: ArgumentParser) -> None:
    """Nothing of its own."""


def draw(options: Namespace) -> "Figure":
    """The rate above, and below it what decay takes off a weight in a step, where a weight decays."""
    configs = [choice.config for choice in options.choices]
    decays = [shrinkage(config) for config in configs]
    n_rows = 2 if any(decays) else 1
    figure = new_figure(options.style, ratio=0.62 + 0.45 * (n_rows - 1))
    grid = figure.subplots(n_rows, 1, sharex=True, squeeze=False)[:, 0]
    handles = []
    for number, (config, decay) in enumerate(zip(configs, decays, strict=True)):
        seen, factors = look(number), factors_of(config)
        rates = [config.optim.lr * factor for factor in factors]
        handles += grid[0].plot(range(1, len(rates) + 1), rates, color=seen.colour, linestyle=seen.line)
        if decay:
            grid[1].plot(range(1, len(decay) + 1), decay, color=seen.colour, linestyle=seen.line)
    if len(configs) == 1:
        _label(grid[0], phases(factors_of(configs[0])))
    for axes, title in zip(grid, ("learning rate", "decay in a step"), strict=False):
        axes.set_ylim(bottom=0)
        _count_in_tens(axes, title)
        axes.grid(axis="y")
    grid[-1].set_xlabel("step")
    if len(configs) > 1:
        legend_below(figure, handles, [choice.label for choice in options.choices])
    return figure


def factors_of(config: "RunConfig") -> list[float]:
    """The factor of the peak rate at each update."""
    steps = config.train.steps
    return [config.schedule.factor(step, steps) for step in range(steps)]


def shrinkage(config: "RunConfig") -> list[float]:
    """The share that each update takes off a weight matrix of a block; empty where nothing decays."""
    import torch

    from lab.model.regularization import RegularizationStack

    dims = config.model.dims(256)
    rules = RegularizationStack({name: c.build(dims) for name, c in config.regularization.items()})
    rate = rules.decay("blocks.0.ffn.up.weight", torch.zeros(1, 1), config.optim.lr)
    return [config.optim.lr * factor * rate for factor in factors_of(config)] if rate else []


def phases(factors: Sequence[float]) -> list[tuple[str, int, int]]:
    """Stretches in which the rate rises, stays or falls: name, first and last update, from 1."""
    found: list[tuple[str, int, int]] = []
    for step in range(1, len(factors)):
        change = factors[step] - factors[step - 1]
        name = "constant" if abs(change) < SAME else "warm-up" if change > 0 else "decay"
        if found and found[-1][0] == name:
            found[-1] = name, found[-1][1], step + 1
        else:
            found.append((name, step, step + 1))
    return found


def _label(axes: "Axes", stretches: Sequence[tuple[str, int, int]]) -> None:
    """Name the phases above the axes, and draw where one gives way to the next."""
    last = stretches[-1][2] if stretches else 1
    for name, first, end in stretches:
        if end < last:
            axes.axvline(end, color="#999999", linewidth=0.5)
        share = (end - first) / last
        if share < 0.08 and first > 1:  # its name would stand on its neighbours'
            continue
        place, side = (first, "left") if share < 0.16 and first == 1 else ((first + end) / 2, "center")
        axes.annotate(
            name, (place, 1.02), xycoords=("data", "axes fraction"), ha=side, va="bottom", fontsize="small"
        )


def _count_in_tens(axes: "Axes", title: str) -> None:
    """Write the ticks in units of a power of ten that stands beside the title."""
    import math

    exponent = math.floor(math.log10(axes.get_ylim()[1]))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value / 10**exponent:.4g}")
    power = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    axes.set_ylabel(f"{title} (10{power})")
