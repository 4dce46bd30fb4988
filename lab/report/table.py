"""Rows to text: one row a variant, legible in a terminal, a pipe and a paper draft."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Literal

from lab.report.cache_table import NONE
from lab.report.comparison import Comparison
from lab.report.effects import Effects
from lab.report.main_table import effect_columns
from lab.report.notes import reasons, si, warnings
from lab.report.rows import Row

Panel = Literal["loss", "effect", "claims", "spikes", "cost"]

_LAYOUTS: tuple[tuple[tuple[Panel, ...], ...], ...] = (
    (("loss", "effect", "claims", "spikes", "cost"),),
    (("loss", "effect", "claims"), ("spikes", "cost")),
    (("loss",), ("effect", "claims"), ("spikes", "cost")),
    (("loss",), ("effect",), ("claims",), ("spikes",), ("cost",)),
)
"""Ways to set the columns one above the other, from the widest to the narrowest."""


@dataclass(frozen=True)
class _Column:
    header: str
    """Two lines."""
    cells: Callable[[Sequence[Row]], list[str]]
    panel: Panel
    always: bool = True
    """False: shown only if some row has something to show."""
    left: bool = False


def as_text(comparison: Comparison, *, width: int | None = None) -> str:
    """The table as text, and below it why runs failed, what they share, and warnings.

    Args:
        comparison: the variants, at least one.
        width: columns of the terminal. A table that is wider is set in panels: losses, effects, spikes, costs.
            None, as for a file or a pipe, always gives a single panel. Rows are never broken.
    """
    found, effects = comparison.rows, comparison.effects
    columns = [*_COLUMNS, *(_effects(effects, comparison.published) if effects else [])]
    for layout in _LAYOUTS:
        blocks = [text for panels in layout if (text := _panel(found, panels, columns))]
        if width is None or max(map(_width, blocks)) <= width:
            break
    records = comparison.records
    notes = [line for pieces in comparison.notes() for line in _lines(pieces, width)]
    notes += [f"warning: {line}" for line in warnings(records, found)]
    return "\n\n".join(blocks + ["\n".join(lines) for lines in (reasons(records), notes) if lines])


def _effects(found: Effects, published: Mapping[str, Mapping[str, str]]) -> list[_Column]:
    """The columns of differences, which the baseline has not, and of published ones."""

    def column(header: str, cells: Mapping[str, str]) -> _Column:
        def said(rows: Sequence[Row]) -> list[str]:
            return [cells.get(row.variant, NONE) for row in rows]

        panel: Panel = "claims" if header.strip() in published else "effect"
        return _Column(header, said, panel, left=header.endswith(("verdict", "claim")))

    return [column(header, cells) for header, cells in effect_columns(found, published).items()]


def _lines(pieces: Sequence[str], width: int | None) -> list[str]:
    """Pieces joined by dots, broken between pieces where a line would not fit."""
    lines = [pieces[0]]
    for piece in pieces[1:]:
        longer = f"{lines[-1]} · {piece}"
        if width is None or len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(piece)
    return lines if width is None else [part for line in lines for part in wrap(line, width) or [line]]


def _width(text: str) -> int:
    return max(len(line) for line in text.splitlines())


def _panel(found: Sequence[Row], panels: Sequence[Panel], columns: Sequence[_Column]) -> str:
    """A table of the columns of some panels; empty where there are none."""
    from rich.cells import cell_len

    if not any(column.panel in panels for column in columns):
        return ""
    heads, lefts, bodies = [("", "variant")], [True], [[row.variant for row in found]]
    for column in columns:
        cells = column.cells(found)
        if column.panel in panels and (column.always or any(cell not in ("", NONE, "0") for cell in cells)):
            first, _, second = column.header.partition("\n")
            heads.append((first, second))
            lefts.append(column.left)
            bodies.append(cells)
    widths = [max(map(cell_len, [*head, *cells])) for head, cells in zip(heads, bodies, strict=True)]

    def line(cells: Sequence[str]) -> str:
        parts = []
        for cell, width, left in zip(cells, widths, lefts, strict=True):
            blanks = " " * (width - cell_len(cell))
            parts.append(cell + blanks if left else blanks + cell)
        return "  ".join(parts).rstrip()

    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join(
        [*(line(part) for part in zip(*heads, strict=True)), rule, *map(line, zip(*bodies, strict=True))]
    )


def _each(form: Callable[[Row], str]) -> Callable[[Sequence[Row]], list[str]]:
    return lambda found: [form(row) for row in found]


def _or_none(value: float | None, form: Callable[[float], str]) -> str:
    return NONE if value is None else form(value)


def _loss(value: float | None) -> str:
    return _or_none(value, "{:.4f}".format)


def _finals(found: Sequence[Row]) -> list[str]:
    """Mean ± sd, with the ± of all rows in one column."""
    means = [_loss(row.final_loss) for row in found]
    spreads = ["" if row.final_loss_sd is None else f" ± {row.final_loss_sd:.4f}" for row in found]
    left, right = max(map(len, means), default=0), max(map(len, spreads), default=0)
    return [mean.rjust(left) + spread.ljust(right) for mean, spread in zip(means, spreads, strict=True)]


def _differences(values: Sequence[float | None]) -> list[str]:
    """Percent against the first row; nothing at all when no row differs."""
    if not any(values):
        return ["" for _ in values]
    return ["" if i == 0 else _or_none(value, "{:+.1f}%".format) for i, value in enumerate(values)]


def _spikes(spikes: int | None, counted: int) -> str:
    return "n/a" if spikes is None else f"{spikes}/{counted}"


_COLUMNS = (
    _Column("n\ndone", _each(lambda row: f"{row.done}/{row.asked}"), "loss"),
    _Column("\nparams", _each(lambda row: _or_none(row.params, si)), "cost"),
    _Column("\nΔ", lambda found: _differences([row.params_difference for row in found]), "cost", always=False),
    _Column("params\nnon-emb", _each(lambda row: _or_none(row.params_non_embedding, si)), "cost"),
    _Column(
        "\nΔ",
        lambda found: _differences([row.params_non_embedding_difference for row in found]),
        "cost",
        always=False,
    ),
    _Column("FLOPs/\ntoken", _each(lambda row: _or_none(row.flops_per_token, si)), "cost"),
    _Column("tokens\n/s", _each(lambda row: _or_none(row.tokens_per_s, si)), "cost"),
    _Column("\nepochs", _each(lambda row: _or_none(row.epochs, "{:.2f}".format)), "cost"),
    _Column("early\nloss", _each(lambda row: _loss(row.early_loss)), "loss"),
    _Column("final\nloss", _finals, "loss"),
    _Column("bits/\nbyte", _each(lambda row: _loss(row.bits_per_byte)), "loss"),
    _Column("spikes\nloss", _each(lambda row: _spikes(row.spikes_loss, row.spikes_loss_counted)), "spikes"),
    _Column(
        "spikes\ngrad norm",
        _each(lambda row: _spikes(row.spikes_grad_norm, row.spikes_grad_norm_counted)),
        "spikes",
    ),
    _Column("\nfailed", _each(lambda row: str(row.failed)), "loss"),
    _Column("\ndiverged", _each(lambda row: str(row.diverged)), "loss"),
    _Column("\npartial", _each(lambda row: str(row.partial)), "loss", always=False),
    _Column("\nrunning", _each(lambda row: str(row.running)), "loss", always=False),
    _Column("\nnote", _each(lambda row: ", ".join(row.flags)), "loss", always=False, left=True),
)
