"""Attention maps of a finished run on a text, layers by heads, with entropy and the first token's share.

The entropy is that of a query's weights in nats, the share what queries after the first give to the first token;
both are means over the queries. A query sees along its row. The maps are those of the plain computation in fp32.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lab.errors import ConfigError, LabError
from lab.figure._style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from lab.model.transformer import Transformer

NEEDS = "run"
MOST = 96
"""Panels of one figure."""
NAMED = 12
"""Tokens that can be named at the axes."""


def add_arguments(parser: ArgumentParser) -> None:
    """The text and the layers."""
    parser.add_argument("--text", metavar="TEXT", required=True, help="what the model reads")
    parser.add_argument(
        "--layer",
        metavar="N",
        type=int,
        action="append",
        help="one layer, from 0; may be given again (default: all)",
    )


def draw(options: Namespace) -> "Figure":
    """A panel for each layer and head.

    Raises:
        LabError: the run cannot be loaded, its attention has no maps, or there are too many panels.
    """
    from lab.training.load import load_model

    loaded = load_model(options.run)
    ids = list(loaded.tokenizer.encode_batch([options.text])[0])[: loaded.config.model.max_seq_len]
    if len(ids) < 2:
        raise ConfigError("--text must be two tokens or more")
    found = maps(loaded.model, ids, loaded.config.attn.name)
    layers = list(range(len(found))) if options.layer is None else sorted(set(options.layer))
    for layer in layers:
        if layer not in range(len(found)):
            raise ConfigError(f"--layer {layer} must be from 0 to {len(found) - 1}")
    found = [found[layer] for layer in layers]
    if sum(map(len, found)) > MOST:
        raise LabError(f"{sum(map(len, found))} maps are too many for one figure: choose with --layer")
    names = [repr(loaded.tokenizer.decode([number]))[1:-1] for number in ids]
    return panels(found, layers, names, options.style)


def maps(model: "Transformer", ids: Sequence[int], name: str) -> "list[Tensor]":
    """Weights of the keys (N, T, S) in each layer.

    Raises:
        LabError: the attention computes no weights of all keys.
    """
    import torch

    from lab.model.softmax_attention import SoftmaxAttention

    found: list[Tensor] = []

    def recording(weigh: Any) -> Any:
        def record(scores_BNTS: "Tensor") -> "Tensor":
            weights_BNTS: Tensor = weigh(scores_BNTS)
            found.append(weights_BNTS[0].detach().cpu())
            return weights_BNTS

        return record

    attention = model.attention()
    changed: list[Any] = [m for m in dict.fromkeys(attention) if isinstance(m, SoftmaxAttention)]
    before = [(module.path, module.own_weights) for module in changed]
    for module in changed:
        module.path, module.own_weights, module.weigh = "plain", True, recording(module.weigh)
    try:
        with torch.no_grad():
            model(torch.tensor([[int(i) for i in ids]], device=model.embedding.weight.device))
    finally:
        for module, (path, own) in zip(changed, before, strict=True):
            module.path, module.own_weights = path, own
            del module.weigh
    if len(found) != len(attention) or any(map_NTS.shape[-1] != len(ids) for map_NTS in found):
        raise LabError(f"attn={name} does not weigh all keys in one softmax, so there are no maps to draw")
    return found


def entropy(map_TS: "Tensor") -> float:
    """Mean over queries of the entropy of their weights, nats; weights are made to sum to one."""
    import torch

    share_TS = map_TS.double()
    share_TS = share_TS / share_TS.sum(-1, keepdim=True).clamp(min=1e-30)
    return float(torch.special.entr(share_TS).sum(-1).mean())


def first_share(map_TS: "Tensor") -> float:
    """Mean weight of the first token for the queries after it."""
    return float(map_TS[1:, 0].double().mean())


def panels(found: "Sequence[Tensor]", layers: Sequence[int], names: Sequence[str], style: str) -> "Figure":
    """Darker is more weight, from none to all."""
    from matplotlib.ticker import MaxNLocator

    rows, columns = len(found), max(map(len, found))
    named = len(names) <= NAMED
    figure = new_figure(style, width="text", ratio=min(2.0, 0.88 * rows / columns + 0.12))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    image = None
    for row, (layer, map_NTS) in enumerate(zip(layers, found, strict=True)):
        for head, map_TS in enumerate(map_NTS):
            axes = grid[row, head]
            image = axes.imshow(map_TS.numpy(), cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
            facts = f"{entropy(map_TS):.2f} · {100 * first_share(map_TS):.0f} %"
            axes.set_title(f"head {head}\n{facts}" if row == 0 else facts, fontsize="small")
            if named:
                axes.set_xticks(range(len(names)), names, rotation=90)
                axes.set_yticks(range(len(names)), names)
            else:
                for axis in (axes.xaxis, axes.yaxis):
                    axis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
        grid[row, 0].set_ylabel(f"layer {layer}")
    figure.supxlabel("key" if named else "key position", fontsize="medium")
    figure.supylabel("query" if named else "query position", fontsize="medium")
    figure.suptitle("above each map: entropy (nats) · share of the first token", fontsize="small")
    if image is not None:
        figure.colorbar(image, ax=grid, label="weight", shrink=min(1.0, 2 / rows), aspect=30)
    return figure
