"""Table A: what each variant costs, the losses it reached, and how it compares with the baseline."""

from collections.abc import Callable, Mapping

from lab.report.cache_table import NONE
from lab.report.comparison import Comparison
from lab.report.effects import Effect, Effects
from lab.report.grid import Column, Grid
from lab.report.notes import reasons, si, warnings
from lab.report.rows import Row


def table(comparison: Comparison) -> Grid:
    """The grid; the columns of effects only where there is something to compare."""
    rows, found = comparison.rows, comparison.effects
    bodies = [[form(row) for row in rows] for form in _CELLS.values()]
    columns = [Column(header=header, left=header == "variant") for header in _CELLS]
    if found is not None:
        for header, cells in effect_columns(found, comparison.published).items():
            columns.append(Column(header=header, left=header.strip() in ("verdict", "claim")))
            bodies.append([cells.get(row.variant, NONE) for row in rows])
    notes = [" · ".join(pieces) for pieces in comparison.notes()]
    notes += reasons(comparison.records)
    notes += [f"warning: {line}" for line in warnings(comparison.records, rows)]
    return Grid(
        title="Losses and costs",
        columns=columns,
        rows=list(zip(*bodies, strict=True)),
        notes=notes,
        data=comparison.data(),
        per_seed=comparison.per_seed(),
    )


def effect_columns(found: Effects, published: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
    """Cells by label of the row, by header in two lines; what was published comes last."""
    sides: dict[str, Callable[[Effect], str]] = {
        f"Δ {_METRICS.get(found.metric, found.metric)}\n[{100 * (1 - found.stats.alpha):g}% family]": _difference,
        "\np Holm": lambda row: NONE if row.p is None else f"{row.p:.3f}" if row.p >= 0.001 else "<0.001",
        "\nwins": lambda row: NONE if row.wins is None else f"{row.wins}/{row.pairs}",
        "\nMDE": lambda row: NONE if row.mde is None else f"{row.mde:.4f}",
        "\nverdict": said,
    }
    cells: dict[str, dict[str, str]] = {
        header: {row.label: form(row) for row in found.rows} for header, form in sides.items()
    }
    if found.mde is not None:
        cells["\nMDE"][found.baseline] = f"{found.mde:.4f}"
    cells["\nverdict"][found.baseline] = "baseline"
    return cells | {f"\n{header}": dict(column) for header, column in published.items()}


def said(row: Effect) -> str:
    """The verdict, and whether the row is paired; the number of seeds where there is no word."""
    marks = [row.verdict or f"n={row.n}", *([] if row.is_paired or not row.ended else ["unpaired"])]
    return ", ".join(marks)


def _difference(row: Effect) -> str:
    if row.contrast is None:
        known = list(row.differences.values())
        return f"{sum(known) / len(known):+.4f}" if known else NONE
    low, high = row.contrast.family_interval
    return f"{row.contrast.mean:+.4f} [{low:+.4f}, {high:+.4f}]"


def _known(value: float | None, form: Callable[[float], str]) -> str:
    return NONE if value is None else form(value)


def _loss(mean: float | None, sd: float | None) -> str:
    return NONE if mean is None else f"{mean:.4f}" + ("" if sd is None else f" ± {sd:.4f}")


def _params(row: Row) -> str:
    more = row.params_difference
    return _known(row.params, si) + (f" ({more:+.1f}%)" if more else "")


_METRICS = {"final_loss": "final", "early_loss": "early", "bits_per_byte": "bits/byte"}

_CELLS: dict[str, Callable[[Row], str]] = {
    "variant": lambda row: row.variant,
    "ok/n": lambda row: f"{row.done}/{row.asked}",
    "params\nnon-emb": lambda row: _known(row.params_non_embedding, si),
    "params": _params,
    "FLOPs/\ntoken": lambda row: _known(row.flops_per_token, si),
    "tokens/s": lambda row: _known(row.tokens_per_s, si),
    "early loss": lambda row: _loss(row.early_loss, row.early_loss_sd),
    "final loss": lambda row: _loss(row.final_loss, row.final_loss_sd),
    "bits/\nbyte": lambda row: _known(row.bits_per_byte, "{:.4f}".format),
    "diverged": lambda row: str(row.diverged),
}
