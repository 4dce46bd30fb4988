"""Gradient norm before clipping over steps, on a log axis: seeds thin, their mean thick, spikes marked."""

from argparse import Namespace
from typing import TYPE_CHECKING

from lab.figure._curves import add_arguments, draw_curves
from lab.figure._style import decimal_log
from lab.stats.spikes import log_norm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["NEEDS", "add_arguments", "draw"]

NEEDS = "runs"


def draw(options: Namespace) -> "Figure":
    """The L2 norm of the gradient over all parameters.

    Raises:
        LabError: no run has a gradient norm.
    """
    figure, axes = draw_curves(
        options, "grad_norm", "gradient norm before clipping", judged=log_norm, held_out=False
    )
    axes.set_yscale("log")
    decimal_log(axes.yaxis)
    return figure
