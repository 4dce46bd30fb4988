"""Which keys each query may see, for each kind of layer and head that an attention has.

Where a query sees less than that, by what the keys hold, the panel says that it is an upper bound.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from lab.errors import ConfigError
from lab.figure._style import new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from lab.model.attention_mask import Mask
    from lab.model.attn import AttnConfig
    from lab.model.sizes import Dims

NEEDS = "overrides"
MOST = 512
"""Positions of which one can see a single one in print."""


def add_arguments(parser: ArgumentParser) -> None:
    """How many positions."""
    parser.add_argument(
        "--length", metavar="N", type=int, default=64, help=f"positions, at most {MOST} (default: 64)"
    )


def draw(options: Namespace) -> "Figure":
    """A panel for each different mask of each choice.

    Raises:
        ConfigError: the length is out of range, or there are too many panels.
    """
    if not 2 <= options.length <= MOST:
        raise ConfigError(f"--length {options.length} must be from 2 to {MOST}")
    found = []
    for choice in options.choices:
        config = choice.config
        label = choice.label or f"attn={config.attn.name}"
        note = config.architecture(256).outline().attention()[0].mask_note
        for title, seen in patterns(config.attn, config.model.dims(256), options.length):
            found.append((f"{label}\n{title}" + (f"\n{note}" if note else ""), seen))
    if len(found) > 12:
        raise ConfigError(f"{len(found)} different masks are too many for one figure: draw fewer choices at once")
    return panels(found, options.style)


def patterns(attn: "AttnConfig", dims: "Dims", length: int) -> "Iterator[tuple[str, Tensor]]":
    """Each different mask: its layers and heads in words, and (T, S), whether a query may see a key."""
    layers: dict[Mask, list[int]] = {}
    for index in range(dims.n_layers):
        layers.setdefault(attn.layer(index, dims).mask, []).append(index)
    for mask, indices in layers.items():
        where = "all layers" if len(layers) == 1 else f"layer{'s'[: len(indices) - 1]} {numbers(indices)}"
        heads = picture(mask, length)
        kinds: list[tuple[Tensor, list[int]]] = []
        for head, seen in enumerate(heads):
            same = next((of for other, of in kinds if bool((other == seen).all())), None)
            if same is None:
                kinds.append((seen, [head]))
            else:
                same.append(head)
        for seen, of in kinds:
            yield (where if len(kinds) == 1 else f"{where}, head{'s'[: len(of) - 1]} {numbers(of)}"), seen


def picture(mask: "Mask", length: int) -> "Tensor":
    """Whether a query may see a key: (1, T, S), or (N, T, S) where heads differ."""
    import torch

    from lab.model.attention_mask import attention_mask

    added = attention_mask(mask, range(length), range(length), torch.zeros(1))
    seen = added == 0
    return seen[None] if seen.dim() == 2 else seen


def numbers(values: Sequence[int]) -> str:
    """Whole numbers in ascending order, runs of three or more and even steps shortened."""
    if len(values) < 3:
        return ", ".join(map(str, values))
    steps = {b - a for a, b in pairwise(values)}
    if steps == {1}:
        return f"{values[0]}–{values[-1]}"
    if len(values) > 3 and len(steps) == 1:
        return f"{values[0]}, {values[1]}, …, {values[-1]}"
    return ", ".join(map(str, values)) if len(values) < 7 else f"{len(values)} of them, first {values[0]}"


def panels(found: "Sequence[tuple[str, Tensor]]", style: str) -> "Figure":
    """Ink where a key is seen, query positions downward."""
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    columns = min(len(found), 2 if len(found) in (2, 4) else 3)
    rows = -(-len(found) // columns)
    width = "column" if columns < 3 else "text"
    room = 50 if columns == 1 else 24
    titles = ["\n".join(shortened(line, width=room) for line in title.split("\n")) for title, _ in found]
    extra = 0.075 * rows * (max(title.count("\n") for title in titles) - 0.5) * (1 if columns < 3 else 0.5)
    ratio = (1.04 * rows + 0.02) / columns if columns > 1 else 1.02
    figure = new_figure(style, width=width, ratio=ratio + extra)
    figure.set_layout_engine("compressed")  # for squares
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    ink = ListedColormap(["#ffffff", "#1b3a57"])
    for number, axes in enumerate(grid.flat):
        if number >= len(found):
            axes.set_visible(False)
            grid[rows - 2, number % columns].tick_params(labelbottom=True)
            continue
        _, seen = found[number]
        length = seen.shape[0]
        edges = (-0.5, length - 0.5, length - 0.5, -0.5)
        axes.imshow(seen.numpy(), cmap=ink, vmin=0, vmax=1, interpolation="nearest", extent=edges)
        for side in ("top", "right"):
            axes.spines[side].set_visible(True)
        axes.set_title(titles[number], fontsize="small")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    figure.supxlabel("key position", fontsize="medium")
    figure.supylabel("query position", fontsize="medium")
    return figure
