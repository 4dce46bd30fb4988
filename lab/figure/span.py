"""How far back gradients reach: the loss at a position by the inputs before it, beside what the masks allow.

A line a variant: of runs, its lowest finished seed with the weights that it ended with, or of configurations, those
of the start (``lab plot span attn=mha,sliding_window``). The gradient is that of a token's loss by the embedding of
one so many tokens back; drawn is the root of its mean square over held-out sequences and positions of their last
quarter, as a share of that at no distance. A layer of window W looks W - 1 tokens back, so that L of them end at
L (W - 1) (arXiv:2310.06825, section 2, says L W); beyond that the gradient is exactly zero, and the line ends.
"""

import math
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.component import check_number
from lab.errors import LabError
from lab.figure._runs import grouped
from lab.figure._style import decimal_log, legend_below, line_scale, look, new_figure

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from matplotlib.figure import Figure
    from torch import Tensor

    from lab.data.batches import Tokens
    from lab.figure import Choice, Run
    from lab.model.transformer import Transformer

NEEDS = "either"

POSITIONS = 8
"""Of each sequence, evenly spread over its last quarter, the last one among them."""


@dataclass(frozen=True)
class Span:
    """What is drawn of a variant."""

    label: str
    squares: "Tensor"
    """Mean square of the gradient by distance, fp64, from none to the largest that all positions have."""
    reach: int
    """The largest distance that the masks of all layers together let through."""
    window: int | None
    """Of every layer, where all have the same sliding one."""
    n_layers: int

    @property
    def shares(self) -> "Tensor":
        """The gradient by distance as a share of that at none."""
        return (self.squares / self.squares[0]).sqrt()

    @property
    def ends(self) -> bool:
        """Whether the masks end among the distances that were looked at."""
        return self.reach < len(self.squares) - 1


def add_arguments(parser: "ArgumentParser") -> None:
    """How much text is read."""
    parser.add_argument(
        "--sequences", metavar="N", type=int, default=32, help="held-out sequences to average over (default: 32)"
    )


def draw(options: Namespace) -> "Figure":
    """A line a variant.

    Raises:
        LabError: a run has no weights, or a configuration or its data is refused.
    """
    check_number("--sequences", options.sequences, least=1)
    found = list(_spans(options))
    figure = new_figure(options.style)
    axes = figure.add_subplot()
    scale = line_scale(options.style)
    handles: list[Any] = []
    for number, span in enumerate(found):
        shown, shares = look(number), span.shares
        shares[shares == 0] = math.nan
        handles += axes.plot(range(len(shares)), shares, color=shown.colour, linestyle=shown.line, gid=span.label)
        if span.ends:
            axes.axvline(span.reach, color=shown.colour, linewidth=0.8 * scale, linestyle=":", zorder=1)
    axes.set_yscale("log")
    decimal_log(axes.yaxis)
    axes.set_xlabel("distance back (tokens)")
    axes.set_ylabel("gradient of the loss,\nshare of that at 0")
    axes.grid(visible=True)
    axes.margins(x=0.02)
    labels = [_label(span) for span in found]
    if any(span.ends for span in found):
        from matplotlib.lines import Line2D

        handles.append(Line2D([], [], color="#555555", linewidth=0.8 * scale, linestyle=":"))
        zero = all(not span.squares[span.reach + 1 :].any() for span in found)
        labels.append("reach of the masks" + ("; beyond it exactly 0" if zero else ""))
    legend_below(figure, handles, labels)
    return figure


def _label(span: Span) -> str:
    """With the reach of its masks, where that ends within a sequence."""
    if not span.ends:
        return span.label
    if span.window is None:
        return f"{span.label}: {span.reach} tokens"
    return f"{span.label}: ({span.window} − 1) × {span.n_layers} layers = {span.reach} tokens"


def squares(model: "Transformer", tokens: "Tokens", seq_len: int, n_sequences: int) -> "Tensor":
    """Mean square of the gradient by distance, fp64.

    Raises:
        LabError: the tokens are fewer than one sequence.
    """
    import numpy as np
    import torch

    n_whole = (len(tokens) - 1) // seq_len
    if not n_whole:
        raise LabError(f"the held-out text is {len(tokens)} tokens, less than one sequence of {seq_len}")
    times = np.unique(np.linspace(3 * seq_len // 4, seq_len - 1, POSITIONS).astype(int)).tolist()
    found = []
    for window in np.unique(np.linspace(0, n_whole - 1, n_sequences).astype(int)):
        ids = torch.as_tensor(tokens[window * seq_len : (window + 1) * seq_len + 1].astype(np.int64))
        for t, gradient_TD in zip(times, gradients(model, ids, times), strict=True):
            back_SD = gradient_TD[t - times[0] : t + 1].flip(0)
            found.append(back_SD.double().square().mean(dim=-1))
    return torch.stack(found).mean(dim=0)


def gradients(model: "Transformer", ids: "Tensor", times: Sequence[int]) -> "Tensor":
    """Of the loss at each of some positions by the embedded tokens, (positions, T, D)."""
    import torch

    kept: list[Tensor] = []

    def hook(_: object, __: object, output: "Tensor") -> "Tensor":
        kept.append(output.detach().requires_grad_())
        return kept[0]

    handle = model.embedding.register_forward_hook(hook)
    try:
        x_BTD, _ = model(ids[None, :-1].expand(len(times), -1))
    finally:
        handle.remove()
    at = torch.tensor(times)
    z_BV = torch.nn.functional.linear(x_BTD[range(len(times)), at], model.head_weight(), model.head_bias)
    loss = torch.nn.functional.cross_entropy(model.stability.logits(z_BV), ids[at + 1], reduction="sum")
    (gradient_BTD,) = torch.autograd.grad(loss, kept)
    return gradient_BTD


def reach(model: "Transformer", length: int) -> int:
    """The largest distance from a position to an input that it can depend on by the masks of all layers."""
    import torch

    from lab.model.attention_mask import attention_mask

    seen_TS = torch.eye(length)
    for attn in model.attention():
        allowed = attention_mask(attn.layer.mask, range(length), range(length), seen_TS) == 0
        own_TS = allowed.view(-1, length, length).any(dim=0).float()
        seen_TS = (own_TS @ seen_TS + seen_TS).clamp(max=1)
    t, s = seen_TS.nonzero().unbind(dim=1)
    return int((t - s).max())


def _spans(options: Namespace) -> Iterator[Span]:
    """What is drawn."""
    if not options.runs:
        for choice in options.choices:
            name = choice.label or f"attn={choice.config.attn.name}"
            label = f"{name}, at the start" if len(options.choices) == 1 else name
            yield _span(label, options.sequences, *_untrained(choice))
        return
    for variant in grouped(options.runs, in_order=options.in_order):
        done = [run for run in variant.runs if run.record["status"] == "done"]
        yield _span(variant.label, options.sequences, *_trained((done or variant.runs)[0]))


def _span(label: str, n_sequences: int, model: "Transformer", tokens: "Tokens", seq_len: int) -> Span:
    """Look at a model."""
    from lab.model.attention_mask import Sliding

    model.eval().requires_grad_(requires_grad=False)
    masks = [attn.layer.mask for attn in model.attention()]
    first = masks[0]
    window = first.window if isinstance(first, Sliding) and set(masks) == {first} else None
    found = squares(model, tokens, seq_len, n_sequences)
    return Span(label, found, reach(model, seq_len), window, model.n_layers)


def _untrained(choice: "Choice") -> "tuple[Transformer, Tokens, int]":
    """A model with the weights that a run starts with, held-out text and the length of its sequences."""
    from lab.training.plan import plan

    planned = plan(choice.config, choice.target)
    model = planned.architecture.build(study_seed=planned.config.study_seed, seed=planned.config.seed)
    return model, planned.tokens.val, planned.config.model.max_seq_len


def _trained(run: "Run") -> "tuple[Transformer, Tokens, int]":
    """The same of a run, with the weights that it ended with."""
    from lab.data.tokens import prepare
    from lab.runs.store import RunFolder
    from lab.training.load import load_model
    from lab.training.score import OwnTokenizer

    loaded = load_model(RunFolder(run.folder))
    own = OwnTokenizer(name=loaded.config.tokenizer.name, tokenizer=loaded.tokenizer)
    return loaded.model, prepare(loaded.config.data, own).val, loaded.config.model.max_seq_len
