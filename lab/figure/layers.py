"""Norm of the expected gradient of each block at initialisation, nothing trained: arXiv:2002.04745, section 3.

``lab plot layers block=pre,post`` draws a line for each; given runs it draws their variants, by the configuration
and the lowest seed of each. Gradients are averaged over mini-batches first, then the Frobenius norm is taken over
all weights of a block; an average of norms would be larger, by the noise of the batches.
"""

import math
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from lab.component import check_number
from lab.figure import Choice
from lab.figure._runs import grouped
from lab.figure._style import decimal_log, legend_below, line_scale, look, new_figure

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from matplotlib.figure import Figure

NEEDS = "either"


def add_arguments(parser: "ArgumentParser") -> None:
    """How many batches are averaged over."""
    parser.add_argument(
        "--batches", metavar="N", type=int, default=8, help="mini-batches to average over (default: 8)"
    )


def draw(options: Namespace) -> "Figure":
    """A line a configuration.

    Raises:
        LabError: a configuration or its data is refused.
    """
    from matplotlib.ticker import MaxNLocator

    check_number("--batches", options.batches, least=1)
    figure = new_figure(options.style)
    axes = figure.add_subplot()
    handles, labels = [], []
    for number, choice in enumerate(_configs(options)):
        norms, shown = block_norms(choice, options.batches), look(number)
        (line,) = axes.plot(
            range(1, len(norms) + 1),
            norms,
            color=shown.colour,
            linestyle=shown.line,
            marker=shown.marker,
            markersize=3.5 * line_scale(options.style),
            gid=choice.label,
        )
        handles.append(line)
        labels.append(choice.label)
    axes.set_yscale("log")
    decimal_log(axes.yaxis)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("block, from the input")
    axes.set_ylabel("gradient norm at\ninitialisation")
    axes.grid(visible=True)
    batches = f"mean gradient of {options.batches} batches"
    legend_below(figure, handles, [f"{label} ({batches})" if len(labels) == 1 else label for label in labels])
    if len(labels) > 1:
        axes.set_title(batches)
    return figure


def block_norms(choice: Choice, n_batches: int) -> list[float]:
    """The norm of the expected gradient of each block, with weights as they are drawn.

    Raises:
        LabError: the configuration or its data is refused.
    """
    from lab.training.loop import backward
    from lab.training.plan import plan
    from lab.training.state import new_state

    planned = plan(choice.config, choice.target)
    state = new_state(planned.config, planned.architecture)
    for step in range(n_batches):
        state.step = step
        backward(planned.config, state, planned.batches)
    squares = [0.0] * planned.architecture.dims.n_layers
    for name, parameter in state.model.named_parameters():
        if name.startswith("blocks.") and parameter.grad is not None:
            squares[int(name.split(".")[1])] += float((parameter.grad / n_batches).double().square().sum())
    return [math.sqrt(square) for square in squares]


def _configs(options: Namespace) -> Iterator[Choice]:
    """What is drawn."""
    if not options.runs:
        for choice in options.choices:
            yield replace(choice, label=choice.label or f"block={choice.config.block.name}")
        return
    from lab import choices
    from lab.runs.store import RunFolder
    from lab.training.load import read_config

    unmatched = choices.load("match", "none").Config(name="none", to=[])  # its width is already solved for
    for variant in grouped(options.runs, in_order=options.in_order):
        config = read_config(RunFolder(variant.runs[0].folder))
        yield Choice(variant.label, replace(config, init_from=None, match=unmatched))
