"""Loss over steps: seeds thin, their mean thick, held-out losses as points, spikes marked."""

from argparse import Namespace
from typing import TYPE_CHECKING

from lab.figure._curves import add_arguments, draw_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["NEEDS", "add_arguments", "draw"]

NEEDS = "runs"


def draw(options: Namespace) -> "Figure":
    """The training loss of every run.

    Raises:
        LabError: no run has a loss.
    """
    label = "loss (nats per token)"
    figure, _ = draw_curves(options, "loss", label, judged=lambda losses: losses, held_out=True)
    return figure
