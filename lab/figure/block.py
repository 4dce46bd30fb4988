"""One transformer block: its norms, branches and additions, in the order in which its code computes them."""

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lab.errors import ConfigError
from lab.figure._style import new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lab.config import RunConfig
    from lab.model.block import Block

NEEDS = "overrides"
FILL = {"norm": "#fbe3b5", "attn": "#cfe3f3", "ffn": "#d3ecdf", "scale": "#f3dceb", "end": "#eeeeee"}
"""Colours of boxes, light enough for black text."""


def add_arguments(parser: ArgumentParser) -> None:
    """Nothing of its own."""


def draw(options: Namespace) -> "Figure":
    """A diagram for each different block of each choice.

    Raises:
        ConfigError: there are too many, or a block cannot be traced.
    """
    found: list[tuple[str, list[Step]]] = []
    for choice in options.choices:
        own = different(choice.config)
        for layers, steps in own:
            label = choice.label or f"block={choice.config.block.name}"
            found.append(
                (
                    label
                    if len(own) == 1
                    else f"{label}\nlayer{'s' if set(layers) - set('0123456789') else ''} {layers}",
                    steps,
                )
            )
    if len(found) > 4:
        raise ConfigError(f"{len(found)} diagrams are too many for one figure: name at most 4")
    tallest = max(step.row for _, steps in found for step in steps) + 1
    figure = new_figure(
        options.style,
        width="column" if len(found) == 1 else "text",
        ratio=(0.13 * tallest + 0.15) * (1.0 if len(found) == 1 else 0.55),
    )
    widths = [width(steps) for _, steps in found]
    grid = figure.subplots(1, len(found), squeeze=False, width_ratios=widths)[0]
    for axes, (title, steps) in zip(grid, found, strict=True):
        diagram(axes, steps, tallest)
        axes.set_title("\n".join(shortened(line, width=28) for line in title.split("\n")))
    return figure


@dataclass(eq=False)
class Step:
    """Something that a block computes."""

    kind: str
    """``in``, ``out``, ``add``, or a key of ``FILL``."""
    label: str
    sources: "list[Step]" = field(default_factory=list)
    row: int = 0
    """From the input upward."""
    column: int = 0
    """0 is the residual stream."""


def different(config: "RunConfig") -> "list[tuple[str, list[Step]]]":
    """Each different block with the layers that have it."""
    found: dict[str, tuple[list[int], list[Step]]] = {}
    for index, block in enumerate(config.architecture(256).outline().layers()):
        steps = placed(traced(block, config))
        key = repr([(s.kind, s.label, [steps.index(source) for source in s.sources]) for s in steps])
        found.setdefault(key, ([], steps))[0].append(index)
    from lab.figure.mask import numbers

    return [(numbers(layers), steps) for layers, steps in found.values()]


def traced(block: "Block", config: "RunConfig") -> "list[Step]":
    """What a block computes, in order, from running its code on symbols.

    Raises:
        ConfigError: its code depends on the numbers, or does what has no symbol here.
    """
    import torch.fx

    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            return True

    try:
        graph = Tracer().trace(block, concrete_args={"cache": None, "offset": 0, "shared": None})
    except Exception as error:
        raise ConfigError(f"block={config.block.name} cannot be drawn: {error}") from error
    names = {"attn": f"attention\n{config.attn.name}", "ffn": f"feed-forward\n{config.activation.name}"}
    made: dict[Any, Step | None] = {}
    for node in graph.nodes:
        sources = [s for argument in node.all_input_nodes if (s := made[argument]) is not None]
        target = str(node.target)
        step: Step | None = Step("scale", getattr(node.target, "__name__", target), sources)
        if node.op == "placeholder":
            step = Step("in", "x") if not any(made.values()) else None
        elif node.op == "get_attr":
            step = None
        elif node.op == "output":
            result = made[node.all_input_nodes[0]]
            step = Step("out", "x", [result] if result is not None else [])
        elif node.op == "call_module":
            module: Any = block.get_submodule(target)
            kind = target if target in names else "end" if target.endswith("_end") else "norm"
            label = names.get(target, config.norm.name)
            if kind == "end":
                label = ", ".join(type(part).__name__ for part in module)
            passes = (kind == "end" and not len(module)) or type(module) is torch.nn.Identity
            step = sources[0] if passes else Step(kind, label, sources)
        elif target == "to":  # the type of numbers is no step
            step = sources[0]
        elif node.target is getattr:
            step = None
        elif "getitem" in target:
            step = sources[0] if sources and node.args[1] == 0 else None
        elif "add" in target:
            step = Step("add", "+", sources) if len(sources) == 2 else Step("scale", "+ learned", sources)
        elif "mul" in target or "div" in target:
            number = next((a for a in node.args if isinstance(a, int | float)), None)
            step = Step("scale", "× learned" if number is None else f"× {number:.3g}", sources)
        made[node] = step if step is None or step.kind == "in" or step.sources else None
    return list(dict.fromkeys(step for step in made.values() if step is not None))


def placed(steps: "list[Step]") -> "list[Step]":
    """Give steps rows by what they wait for, and columns: the way with the fewest branches is the stream."""
    weight: dict[Step, int] = {}
    for step in steps:
        step.row = 1 + max((source.row for source in step.sources), default=-1)
        own = step.kind in ("attn", "ffn")
        weight[step] = own + min((weight[source] for source in step.sources), default=0)
        step.column = -1
    here: Step | None = steps[-1]
    while here is not None:
        here.column = 0
        here = min(here.sources, key=lambda source: weight[source], default=None)
    used: dict[Step, int] = {}
    for step in steps:
        if step.column < 0:
            source = step.sources[0]
            used[source] = used.get(source, -1) + 1
            step.column = (source.column or 1) + used[source]
    return steps


ACROSS = 1.8
"""From one column to the next, in rows."""


def width(steps: "list[Step]") -> float:
    """What a diagram takes from left to right."""
    return max(step.column for step in steps) * ACROSS + 1.6


def diagram(axes: "Axes", steps: "list[Step]", tallest: int) -> None:
    """Boxes and lines, input at the bottom."""
    from matplotlib import rcParams

    thin = float(rcParams["axes.linewidth"])
    line: dict[str, Any] = {"color": "#333333", "linewidth": 1.5 * thin, "zorder": 1}
    for step in steps:
        x, y = step.column * ACROSS, step.row
        for source in step.sources:
            a, b = source.column * ACROSS, source.row
            turn = [] if a == x else [(a, b + 0.5), (x, b + 0.5)] if step.column > source.column else [(a, y)]
            points = [(a, b), *turn, (x, y)]
            axes.plot([p[0] for p in points], [p[1] for p in points], **line)
        if step.kind in FILL:
            frame = {"boxstyle": "round,pad=0.3", "facecolor": FILL[step.kind], "edgecolor": "#333333"}
            axes.text(
                x, y, step.label, ha="center", va="center", bbox={**frame, "linewidth": thin}, fontsize="small"
            )
        elif step.kind == "add":
            frame = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": "#333333"}
            axes.text(x, y, "+", ha="center", va="center", bbox={**frame, "linewidth": 1.3 * thin})
        else:
            name = "residual stream" if step.kind == "in" else "next block"
            axes.text(
                x, y, name, ha="center", va="center", fontsize="small", bbox={"facecolor": "white", "linewidth": 0}
            )
    axes.set_xlim(-0.8, width(steps) - 0.8)
    axes.set_ylim(-0.5, tallest - 0.4)
    axes.axis("off")
