"""The nonlinearity of a feed-forward branch, or of its gate, and its derivative.

Both are computed by the branch's own function and autograd. Without an override of the activation, all choices
that the menu has are drawn.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lab import choices
from lab.errors import ConfigError
from lab.figure import Choice
from lab.figure._style import COLOURS, LINES, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from lab.model.activation import ActivationConfig
    from lab.model.sizes import Dims

NEEDS = "overrides"
POINTS = 401
"""An odd number, so that zero is one of them."""


def add_arguments(parser: ArgumentParser) -> None:
    """The range of inputs."""
    parser.add_argument("--range", metavar="X", type=float, default=4.0, help="draw from -X to X (default: 4)")


def draw(options: Namespace) -> "Figure":
    """A panel for each activation.

    Raises:
        ConfigError: the range is empty, or an activation has no nonlinearity of one number.
    """
    if not options.range > 0:
        raise ConfigError(f"--range {options.range:g} must be above 0")
    several = options.choices if any(word.startswith("activation") for word in options.overrides) else []
    configs = [c.config.activation for c in several] or every(options.choices[0])
    titles = [c.label.removeprefix("activation=") or c.config.activation.name for c in several]
    dims = options.choices[0].config.model.dims(256)
    found = [curves(config, dims, options.range) for config in configs]
    return panels(titles or [config.name for config in configs], found, options.style)


def every(choice: Choice) -> "list[ActivationConfig]":
    """All activations as their YAML has them."""
    import yaml

    from lab.decode import section
    from lab.paths import conf_dir

    found = []
    for name in choices.names("activation"):
        values = yaml.safe_load((conf_dir() / "activation" / f"{name}.yaml").read_text(encoding="utf-8"))
        values["bias"] = choice.config.activation.bias  # which in the file follows model.bias
        found.append(section("activation", choices.load("activation", name).Config, values))
    return found


def curves(config: "ActivationConfig", dims: "Dims", limit: float) -> "tuple[bool, Tensor, Tensor, Tensor]":
    """Whether it is a gate's; inputs, values and derivatives.

    Raises:
        ConfigError: the branch has no nonlinearity of one number.
    """
    import torch

    branch: Any = config.build(dims)
    act = getattr(branch, "act", None)
    if act is None:
        raise ConfigError(f"activation={config.name} has no function of one number to draw")
    x = torch.linspace(-limit, limit, POINTS, dtype=torch.float64)
    x[POINTS // 2] = 0
    x.requires_grad_()
    y = act(x)
    (slope,) = torch.autograd.grad(y.sum(), x) if y.requires_grad else (torch.zeros_like(x),)
    return hasattr(branch, "gate"), x.detach(), y.detach(), slope


def panels(titles: Sequence[str], found: "Sequence[tuple[bool, Tensor, Tensor, Tensor]]", style: str) -> "Figure":
    """Small multiples on one pair of axes' limits."""
    columns = min(4, len(found))
    rows = -(-len(found) // columns)
    width, ratio = ("column", 0.72) if columns < 3 else ("text", 0.27 * rows)
    figure = new_figure(style, width=width, ratio=0.55 if columns == 2 else ratio)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    handles: list[Any] = []
    for number, axes in enumerate(grid.flat):
        if number >= len(found):
            axes.set_visible(False)
            grid[rows - 2, number % columns].tick_params(labelbottom=True)
            grid[rows - 2, number % columns].set_xlabel("input x")
            continue
        gate, x, y, slope = found[number]
        axes.axhline(0, color="#999999", linewidth=0.5)
        axes.axvline(0, color="#999999", linewidth=0.5)
        value = axes.plot(x, y, color=COLOURS[0], linestyle=LINES[0])
        rise = axes.plot(x, slope, color=COLOURS[1], linestyle=LINES[1])
        handles = [*value, *rise]
        axes.set_title(f"{titles[number]} (gate)" if gate else titles[number])
        axes.set_ylim(-1.5, max(2.5, min(4.5, float(x.max()))))
    for axes in grid[-1]:
        axes.set_xlabel("input x")
    legend_below(figure, handles, ["f(x)", "derivative f\N{PRIME}(x)"])
    return figure
