"""Where a step goes: a bar of its time by class over a bar of its FLOPs, with the floor marked."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lab.figure._style import COLOURS, legend_below, line_scale, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILLS = (*COLOURS[:4], COLOURS[6], COLOURS[5], "#555555", "#222222", "#d0d0d0")
"""By class in their order; the last one is what belongs to no operator."""

LABELLED = 0.08
"""The smallest share that is written into its part of a bar."""


def draw(facts: Mapping[str, Any], style: str) -> "Figure":
    """The two bars of a measurement as ``lab.training.profile.measure`` makes it."""
    figure = new_figure(style, width="column", ratio=0.42)
    axes = figure.add_subplot()
    scale = line_scale(style)
    shares = {"time_share": f"time\n{_ms(facts['step_ms'])}", "flops_share": f"FLOPs\n{_flops(facts['flops'])}"}
    for y, key in enumerate(shares):
        _bar(axes, facts["classes"], key, y, scale)
    floor = facts["floor"]["share"]
    axes.plot([floor, floor], [-0.5, 0.42], color="black", linewidth=1.2 * scale, gid="floor")
    axes.text(floor, -0.54, f"floor {100 * floor:.0f} %", ha="center", va="bottom", fontsize=7 * scale)
    axes.set_yticks(range(len(shares)), list(shares.values()))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, 1)
    axes.set_ylim(1.5, -0.85)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axes.set_xlabel("% of a training step")
    _legend(figure, facts)
    return figure


def _bar(axes: "Axes", classes: Any, key: str, y: int, scale: float) -> None:
    left = 0.0
    for one, fill in zip(classes, FILLS, strict=True):
        share = one[key]
        axes.barh(y, share, left=left, height=0.7, color=fill, edgecolor="white", linewidth=0.4 * scale)
        if share >= LABELLED:
            dark = fill in (COLOURS[0], COLOURS[1], COLOURS[2], "#555555", "#222222")
            colour = "white" if dark else "black"
            text = f"{100 * share:.0f}"
            axes.text(left + share / 2, y, text, ha="center", va="center", color=colour, fontsize=7 * scale)
        left += share


def _legend(figure: "Figure", facts: Mapping[str, Any]) -> None:
    from matplotlib.patches import Patch

    shown = [
        (one["name"], fill)
        for one, fill in zip(facts["classes"], FILLS, strict=True)
        if max(one["time_share"], one["flops_share"]) >= 0.001
    ]
    legend_below(figure, [Patch(color=fill) for _, fill in shown], [name for name, _ in shown])


def _ms(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"


def _flops(value: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"
