"""Table A: what each variant costs, the losses it reached, how it compares; then other measures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.report.claims_grid import claims_grid
from lab.report.comparison import Comparison
from lab.report.effects import Effect, Effects
from lab.report.further import further
from lab.report.grid import NONE, Column, Grid, Later, LaterRecords
from lab.report.measures_table import measures, measures_data, measures_notes
from lab.report.notes import reasons, si, warnings
from lab.report.rows import Row
from lab.stats.contrast import ALPHA


def table(comparison: Comparison) -> Grid:
    """The grid; the columns of effects only where there is something to compare."""
    rows, found = comparison.rows, comparison.effects
    columns, bodies = [], []
    for spec in _SPECS:
        cells = spec.cells(rows)
        if spec.always or any(cell not in ("", NONE, "0") for cell in cells):
            columns.append(Column(header=spec.header, left=spec.left, group=spec.group))
            bodies.append(cells)
    if found is not None:
        published = comparison.published
        for header, by_label in effect_columns(found, published).items():
            group = "claims" if header.strip() in published else "effect"
            columns.append(Column(header=header, left=header.strip() in ("verdict", "claim"), group=group))
            bodies.append([by_label.get(row.variant, NONE) for row in rows])
    more, numbers, by_seed = further(comparison)
    shared, read, *tested = (" · ".join(pieces) for pieces in comparison.notes())
    notes = [shared, read, *more.notes, *measures_notes(comparison.variants), *tested]
    notes += reasons(comparison.records)
    notes += [f"warning: {line}" for line in warnings(comparison.records, rows)]
    return Grid(
        title="Losses and costs",
        columns=columns,
        rows=list(zip(*bodies, strict=True)),
        below=[
            *contrasts(found),
            *claims_grid(comparison.judged, found.stats.alpha if found else ALPHA),
            more,
            *measures(comparison.variants),
        ],
        notes=notes,
        data=Later(lambda: {**comparison.data(), **numbers(), **measures_data(comparison.variants)}),
        per_seed=LaterRecords(lambda: _per_seed(comparison, by_seed())),
    )


def _per_seed(comparison: Comparison, further: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A record a run; then one a seed of each contrast, with no more than its difference."""
    seeds = [{**line, **more} for line, more in zip(comparison.per_seed(), further, strict=True)]
    return [*seeds, *(dict.fromkeys(seeds[0]) | line for line in _by_seed(comparison.effects))]


def contrasts(found: Effects | None) -> list[Grid]:
    """The contrasts of the family that are no row of the table, as a block; none where there are none."""
    if found is None or not found.combined:
        return []
    level = f"[{100 * (1 - found.stats.alpha):g}% family]"
    headers = ["\ncontrast", "\nn", f"Δ {METRICS.get(found.metric, found.metric)}\n{level}", "\np Holm", "\nMDE"]
    columns = [Column(header=header, left=n == 0) for n, header in enumerate(headers)]
    return [
        Grid(
            title="Contrasts",
            columns=[*columns, Column(header="\nverdict", left=True)],
            rows=[
                [
                    one.combination.name,
                    str(one.n),
                    NONE
                    if one.contrast is None
                    else with_interval(one.contrast.mean, one.contrast.family_interval),
                    p_said(one.p),
                    NONE if one.mde is None else f"{one.mde:.4f}",
                    ", ".join([one.verdict or f"n={one.n}", *([] if one.is_paired else ["unpaired"])]),
                ]
                for one in found.combined
            ],
        )
    ]


def _by_seed(found: Effects | None) -> Iterator[dict[str, Any]]:
    """The contrasts by seed, in the keys of the records of runs."""
    for one in found.combined if found else ():
        for seed, value in one.differences.items():
            yield {"variant": one.combination.name, "seed": seed, "difference": value}


def effect_columns(found: Effects, published: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
    """Cells by label of the row, by header in two lines; what was published comes last."""
    sides: dict[str, Callable[[Effect], str]] = {
        f"Δ {METRICS.get(found.metric, found.metric)}\n[{100 * (1 - found.stats.alpha):g}% family]": _difference,
        "\np Holm": lambda row: p_said(row.p),
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


def p_said(p: float | None) -> str:
    """A p in three decimals."""
    return NONE if p is None else f"{p:.3f}" if p >= 0.001 else "<0.001"


def with_interval(mean: float, interval: tuple[float, float]) -> str:
    """A difference and its interval, in nats."""
    return "{:+.4f} [{:+.4f}, {:+.4f}]".format(mean, *interval)


def _difference(row: Effect) -> str:
    if row.contrast is None:
        known = list(row.differences.values())
        return f"{sum(known) / len(known):+.4f}" if known else NONE
    return with_interval(row.contrast.mean, row.contrast.family_interval)


METRICS = {"final_loss": "final", "early_loss": "early", "bits_per_byte": "bits/byte"}
"""Metrics in a word, for the head of a column."""


@dataclass(frozen=True)
class _Spec:
    header: str
    cells: Callable[[Sequence[Row]], list[str]]
    group: str
    always: bool = True
    """False: shown only if some row has something to show."""
    left: bool = False


def _each(form: Callable[[Row], str]) -> Callable[[Sequence[Row]], list[str]]:
    return lambda rows: [form(row) for row in rows]


def _sized(value: Callable[[Row], float | None]) -> Callable[[Sequence[Row]], list[str]]:
    """Numbers, each with what it is more than the first row's, where it is."""

    def cells(rows: Sequence[Row]) -> list[str]:
        values = [value(row) for row in rows]
        base = values[0]
        return [
            NONE
            if one is None
            else si(one) + (f" ({100 * (one / base - 1):+.1f}%)" if base and one != base else "")
            for one in values
        ]

    return cells


def _loss(mean: float | None, sd: float | None) -> str:
    return NONE if mean is None else f"{mean:.4f}" + ("" if sd is None else f" ± {sd:.4f}")


_SPECS = (
    _Spec("\nvariant", _each(lambda row: row.variant), "", left=True),
    _Spec("params\nnon-emb", _sized(lambda row: row.params_non_embedding), "cost"),
    _Spec("\nparams", _sized(lambda row: row.params), "cost"),
    _Spec("FLOPs/\ntoken", _sized(lambda row: row.flops_per_token), "cost"),
    _Spec("tokens/\ns", _each(lambda row: NONE if row.tokens_per_s is None else si(row.tokens_per_s)), "cost"),
    _Spec("early\nloss", _each(lambda row: _loss(row.early_loss, row.early_loss_sd)), "loss"),
    _Spec("final\nloss", _each(lambda row: _loss(row.final_loss, row.final_loss_sd)), "loss"),
    _Spec("\nok/n", _each(lambda row: f"{row.done}/{row.asked}"), "loss"),
    _Spec("\nfailed", _each(lambda row: str(row.failed)), "loss", always=False),
    _Spec("\ndiverged", _each(lambda row: str(row.diverged)), "loss", always=False),
    _Spec("\npartial", _each(lambda row: str(row.partial)), "loss", always=False),
    _Spec("\nrunning", _each(lambda row: str(row.running)), "loss", always=False),
    _Spec("\nnote", _each(lambda row: ", ".join(row.flags)), "loss", always=False, left=True),
)
