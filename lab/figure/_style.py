"""How all figures look: widths, fonts, colours and line styles that are told apart without colour."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = ("paper", "slide")
"""For print, and for a projector."""

WIDTHS = {"paper": {"column": 3.3, "text": 6.75}, "slide": {"column": 8.0, "text": 12.0}}
"""Inches."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
"""Okabe and Ito's, without the yellow, which a white page swallows."""

LINES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (2.6, 1.2)),
    (0, (6, 1.5, 1.2, 1.5, 1.2, 1.5)),
)
MARKERS = ("o", "s", "^", "D", "P", "X", "*", "<", ">")

MOST = len(COLOURS) * len(LINES)
"""Looks that differ."""

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True)
class Look:
    """How one variant is drawn."""

    colour: str
    line: Any
    marker: str


def look(number: int) -> Look:
    """The look of the variant of this number, from 0; no two of the first ``MOST`` are alike."""
    return Look(COLOURS[number % len(COLOURS)], LINES[number % len(LINES)], MARKERS[number % len(MARKERS)])


@contextmanager
def context(style: str) -> Iterator[None]:
    """Draw and save in a style; files are the same each time, and text in them stays text."""
    from matplotlib import rc_context

    small, normal, line = (7.0, 8.0, 1.2) if style == "paper" else (15.0, 17.0, 2.4)
    with rc_context(
        {
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "font.size": normal,
            "axes.labelsize": normal,
            "axes.titlesize": normal,
            "xtick.labelsize": small,
            "ytick.labelsize": small,
            "legend.fontsize": small,
            "legend.title_fontsize": small,
            "figure.titlesize": normal,
            "lines.linewidth": line,
            "lines.markersize": 2.5 * line,
            "axes.linewidth": line / 2,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
            "grid.linewidth": line / 3,
            "grid.color": "#d9d9d9",
            "legend.frameon": False,
            "legend.handlelength": 2.6,
            "figure.dpi": 100,
            "savefig.dpi": 300 if style == "paper" else 150,
            "savefig.facecolor": "white",
            "svg.hashsalt": "lab",
            "svg.fonttype": "none",
            "pdf.fonttype": 42,
            "axes.formatter.useoffset": False,
            "text.parse_math": False,
        }
    ):
        yield


def new_figure(style: str, *, width: str = "column", ratio: float = 0.72) -> "Figure":
    """An empty figure, laid out so that nothing overlaps.

    Args:
        style: one of ``STYLES``.
        width: of a column or of the text.
        ratio: height by width.
    """
    from matplotlib.figure import Figure

    inches = WIDTHS[style][width]
    return Figure(figsize=(inches, inches * ratio), layout="constrained")


def decimal_log(axis: Any) -> None:
    """Ticks of a log axis as plain numbers, few enough to be read."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    decades = math.log10(high / low) if low > 0 else 0.0
    subs = (1.0, 2.0, 5.0) if decades < 2 else (1.0, 3.0) if decades < 3 else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def line_scale(style: str) -> float:
    """What line widths and marker sizes given in points for paper are multiplied with."""
    return 1.0 if style == "paper" else 2.0


def shortened(text: str, *, width: int = 46, lines: int = 2) -> str:
    """A label broken at spaces into lines of at most so many characters; what does not fit ends in an ellipsis."""
    return "\n".join(
        textwrap.wrap(text, width, max_lines=lines, placeholder=ELLIPSIS, break_on_hyphens=False) or [text]
    )


def legend_below(figure: "Figure", handles: Sequence[Any], labels: Sequence[str]) -> None:
    """A legend under the axes, which grows the figure instead of covering or shrinking what is drawn.

    It has as many columns as the labels leave room for; labels that need more than the width are broken.
    """
    if not handles:
        return
    from matplotlib import rcParams

    size = float(rcParams["legend.fontsize"])
    columns = next((n for n in range(min(4, len(labels)), 1, -1) if _fits(figure, labels, n, size)), 1)
    kept = [shortened(label) for label in labels] if columns == 1 else labels
    rows = -(-sum(label.count("\n") + 1 for label in kept) // columns)
    height = figure.get_figheight()
    figure.set_figheight(height + rows * size * 1.45 / 72)
    figure.legend(handles, kept, loc="outside lower center", ncols=columns, columnspacing=SPACING)


SPACING = 1.4
"""Between the columns of a legend, in font sizes."""


def _fits(figure: "Figure", labels: Sequence[str], columns: int, size: float) -> bool:
    """Whether a legend of so many columns is no wider than the figure."""
    import numpy as np
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=rcParams["font.sans-serif"], size=size)
    widths = [text_to_path.get_text_width_height_descent(label, font, ismath=False)[0] for label in labels]
    around = rcParams["legend.handlelength"] + rcParams["legend.handletextpad"]
    total = sum(max(column) for column in np.array_split(widths, columns) if len(column))
    total += size * (columns * around + (columns - 1) * SPACING + 2 * rcParams["legend.borderaxespad"])
    return bool(total <= 72 * figure.get_figwidth())
