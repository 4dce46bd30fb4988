"""What positions do: rows added at the input, rotary frequencies, or the bias of the scores by distance."""

import math
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from lab.errors import ConfigError
from lab.figure._style import COLOURS, LINES, legend_below, look, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from lab.config import RunConfig
    from lab.model.position import LayerPosition, Position
    from lab.model.rope_scaling import Rope
    from lab.model.transformer import Architecture, Transformer

NEEDS = "overrides"


def add_arguments(parser: ArgumentParser) -> None:
    """How many positions."""
    parser.add_argument("--length", metavar="N", type=int, help="positions to draw (default: model.max_seq_len)")


def draw(options: Namespace) -> "Figure":
    """Whichever of the three a position component has.

    Raises:
        ConfigError: there are several choices, the length is no length, or there is nothing to draw.
    """
    if len(options.choices) != 1:
        raise ConfigError("lab plot position draws one configuration: give one value for each key")
    config = options.choices[0].config
    length = config.model.max_seq_len if options.length is None else options.length
    if length < 2:
        raise ConfigError(f"--length {length} must be 2 or more")
    arch = config.architecture(256)
    model = arch.build(study_seed=0, seed=0)  # with the weights that a run starts with
    position, layers = model.position, _layers(model)
    for rope in (getattr(part, "rope", None) for part in layers):
        if rope is not None:
            return frequencies(rope, config.model.max_seq_len, options.style)
    rows = added(position, arch.dims.dim, length)
    if rows is not None:
        return heat(rows, options.style)
    bias = next((found for part in layers if (found := by_distance(part, arch, length)) is not None), None)
    if bias is not None:
        return biases(bias, _note(config), options.style)
    raise ConfigError(f"position={config.position.name} has nothing to draw that does not depend on the tokens")


def _layers(model: "Transformer") -> "list[LayerPosition]":
    """The position's part in each layer where it acts."""
    return [cast("LayerPosition", attn.position) for attn in model.attention() if attn.layer.position_on]


def _note(config: "RunConfig") -> str:
    return f"position={config.position.name}"


def added(position: "Position", dim: int, length: int) -> "Tensor | None":
    """Rows (T, D) that are added to the token embeddings; None: nothing is."""
    import torch

    if position.longest is not None:
        length = min(length, position.longest)
    with torch.no_grad():
        rows = position.embed(torch.zeros(1, length, dim))[0]
    return rows if bool(rows.any()) else None


def by_distance(part: "LayerPosition", arch: "Architecture", length: int) -> "Tensor | None":
    """Bias of the scores (N, distance) for a query of zeros at the last position; None: there is none."""
    import torch

    dims = arch.dims
    query = torch.zeros(1, 1, dims.n_heads, dims.head_dim)
    with torch.no_grad():
        bias = part.score_bias(query, range(length - 1, length), range(length), 1.0)
    if bias is None or not bool(bias.any()):
        return None
    return torch.broadcast_to(bias, (1, dims.n_heads, 1, length))[0, :, 0].flip(-1)


def heat(rows: "Tensor", style: str) -> "Figure":
    """Rows by position."""
    figure = new_figure(style, width="column", ratio=0.8)
    axes = figure.subplots()
    limit = float(rows.abs().max())
    image = axes.imshow(
        rows.numpy(), aspect="auto", cmap="PuOr", vmin=-limit, vmax=limit, interpolation="nearest", origin="lower"
    )
    axes.set_xlabel("dimension")
    axes.set_ylabel("position (tokens)")
    figure.colorbar(image, ax=axes, label="added to the embedding")
    return figure


def frequencies(rope: "Rope", trained: int, style: str) -> "Figure":
    """Wavelength of each rotated pair, the scaled ones beside the plain, with the lengths of sequences."""
    from matplotlib.ticker import MaxNLocator

    plain, _ = replace(rope, scaling=type(rope.scaling)("none")).frequencies()
    own, factor = rope.frequencies()
    figure = new_figure(style, ratio=0.75)
    axes = figure.subplots()
    pairs = range(len(own))
    scaled = rope.scaling != "none"
    handles: list[Any] = axes.plot(pairs, wavelengths(plain), color=COLOURS[0], linestyle=LINES[0])
    labels = [f"theta = {rope.theta:,g}"]
    if scaled:
        handles += axes.plot(pairs, wavelengths(own), color=COLOURS[1], linestyle=LINES[1])
        tempered = f", cos and sin × {factor:.3g}" if factor != 1 else ""
        labels.append(f"{rope.scaling}, factor {rope.factor:g}{tempered}")
    lengths = {rope.original: "original length", round(rope.original * rope.factor): "original length × factor"}
    lengths = {**(lengths if scaled else {}), trained: "model.max_seq_len"}
    for number, (tokens, name) in enumerate(lengths.items()):
        handles.append(axes.axhline(tokens, color="#555555", linestyle=LINES[(number + 2) % 4], linewidth=0.8))
        labels.append(f"{name}, {tokens:,}")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.15g}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("rotated pair")
    axes.set_ylabel("wavelength (tokens)")
    axes.grid(axis="y")
    legend_below(figure, handles, labels)
    return figure


def wavelengths(radians: "Tensor") -> "Tensor":
    """Tokens for a whole turn."""
    return 2 * math.pi / radians.double()


def biases(bias: "Tensor", title: str, style: str) -> "Figure":
    """A line a head."""
    figure = new_figure(style, ratio=0.75)
    axes = figure.subplots()
    handles: list[Any] = []
    for head, line in enumerate(bias):
        seen = look(head)
        handles += axes.plot(range(len(line)), line, color=seen.colour, linestyle=seen.line)
    axes.set_xlabel("distance from query back to key (tokens)")
    axes.set_ylabel("added to the score")
    axes.set_title(title)
    axes.grid(axis="y")
    legend_below(figure, handles, [f"head {head}" for head in range(len(bias))])
    return figure
