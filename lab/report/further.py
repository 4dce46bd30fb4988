"""The second block of table A: the same runs by other measures, which describe and are not tested."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from lab.report.comparison import Comparison
from lab.report.curves import (
    CURVE_LEAST,
    Curve,
    best,
    curve_of,
    end_slope,
    first_at,
    is_dense,
    mean_curve,
    step_seconds,
)
from lab.report.grid import NONE, Column, Grid, strict
from lab.report.rows import Row, number, one_a_seed, sd, within
from lab.report.variants import Record, Variant, config_of, show

NEVER = "never"
"""Of a variant that does not reach the baseline's final loss."""

LARGEST = 700.0
"""Nats whose exponential can still be said."""


@dataclass(frozen=True, kw_only=True)
class Further:
    """One variant; None where a number is not known."""

    variant: str
    perplexity: float | None
    """``exp`` of the mean final loss over seeds: what a token of the tokenizer is worth, not to be compared across
    tokenizers."""
    best_loss: float | None
    """Least validation loss of a run, mean over finished seeds. The least of several is a little too low."""
    best_loss_sd: float | None
    best_step: float | None
    """Its step, median over finished seeds."""
    reaches: bool | None
    """Whether the mean validation curve comes down to the baseline's mean final loss; None: too few validations."""
    steps_to_baseline: float | None
    """The first step at which it does, on straight lines between validations, over the baseline's steps."""
    time_to_baseline: float | None
    """The same in time: times the median time of a step over that of the baseline."""
    worth_steps: float | None
    """How many more steps of the baseline would come to the same: the difference over ``baseline_slope``."""
    peak_memory_mib: float | None
    """Median over finished seeds."""
    lr: list[float]


@dataclass(frozen=True)
class _Baseline:
    """What the others are measured by."""

    runs: Sequence[Record]
    comparable: bool
    """Whether losses per token of all rows are of the same tokens."""

    @cached_property
    def loss(self) -> float | None:
        """Mean final loss."""
        return _mean(_numbers(self.runs, "final_loss")) if self.comparable else None

    @cached_property
    def step_seconds(self) -> float | None:
        """Median time of a step."""
        return step_seconds(self.runs)

    @cached_property
    def steps(self) -> float | None:
        """How many it was trained for."""
        return _steps(self.runs)

    @cached_property
    def curve(self) -> Curve:
        """Its mean validation curve."""
        return mean_curve(self.runs)

    @cached_property
    def slope(self) -> float | None:
        """Of that curve at the end, nats per step."""
        return end_slope(self.curve) if self.comparable else None


Numbers = Callable[[], dict[str, Any]]
Records = Callable[[], list[dict[str, Any]]]


def further(comparison: Comparison) -> tuple[Grid, Numbers, Records]:
    """The block with its notes; its numbers; and those of each seed, in the order of ``Comparison.per_seed``."""
    found = comparison.effects
    base = _Baseline(_done(comparison.variants[0]), found is None or found.metric != "bits_per_byte")
    differences = _differences(comparison) if found is not None and found.metric == "final_loss" else {}
    rows = [_row(variant, base, differences.get(variant.label)) for variant in comparison.variants]
    cells = {
        header: [form(row, more) for row, more in zip(comparison.rows, rows, strict=True)]
        for header, form in _CELLS.items()
    }
    shown = [header for header, column in cells.items() if any(cell not in (NONE, "") for cell in column)]
    grid = Grid(
        title="Further measures",
        columns=[Column(header="variant", left=True), *(Column(header=h, group=_GROUPS.get(h, "")) for h in shown)],
        rows=[[row.variant, *(cells[header][n] for header in shown)] for n, row in enumerate(rows)],
        notes=list(_notes(rows, base)),
    )

    def numbers() -> dict[str, Any]:
        made: dict[str, Any] = strict({"further": [asdict(row) for row in rows], "baseline_slope": base.slope})
        return made

    return grid, numbers, lambda: [strict(line) for line in _per_seed(comparison, base)]


def _row(variant: Variant, base: _Baseline, difference: float | None) -> Further:
    done = _done(variant)
    loss = _mean(_numbers(done, "final_loss"))
    bests = [found for run in done if (found := best(run)) is not None]
    dense = bool(done) and is_dense(curve_of(done[0]))
    reaches, share = _to_baseline(mean_curve(done) if dense else [], base, _steps(done))
    ours, theirs = step_seconds(done), base.step_seconds
    return Further(
        variant=variant.label,
        perplexity=_perplexity(loss),
        best_loss=_mean([value for _, value in bests]),
        best_loss_sd=sd([value for _, value in bests]),
        best_step=float(statistics.median(step for step, _ in bests)) if bests else None,
        reaches=reaches,
        steps_to_baseline=share,
        time_to_baseline=share * ours / theirs if share is not None and ours and theirs else None,
        worth_steps=difference / base.slope if difference is not None and base.slope else None,
        peak_memory_mib=_middle(_numbers(done, "peak_memory_mib")),
        lr=sorted(
            {float(lr) for run in variant.records if (lr := within(config_of(run), "optim", "lr")) is not None}
        ),
    )


def _to_baseline(curve: Curve, base: _Baseline, steps: float | None) -> tuple[bool | None, float | None]:
    """Whether a curve reaches the baseline's final loss, and at which share of the baseline's steps."""
    if base.loss is None or not is_dense(curve) or steps is None or not base.steps:
        return None, None
    step = first_at(curve, base.loss)
    return step is not None, None if step is None else step / base.steps


def _per_seed(comparison: Comparison, base: _Baseline) -> Iterator[dict[str, Any]]:
    """Of each seed; its own curve against the baseline's mean final loss, its own difference over that slope."""
    found = comparison.effects
    apart = {row.label: row.differences for row in found.rows} if found and found.metric == "final_loss" else {}
    for variant in comparison.variants:
        for run in one_a_seed(variant.records):
            difference = apart.get(variant.label, {}).get(str(config_of(run).get("seed")))
            is_done = run.get("status") == "done"
            step, loss = (best(run) if is_done else None) or (None, None)
            _, share = _to_baseline(curve_of(run), base, _steps([run])) if is_done else (None, None)
            ours, theirs = step_seconds([run]), base.step_seconds
            yield {
                "perplexity": _perplexity(number(run.get("final_loss"))) if is_done else None,
                "best_loss": loss,
                "best_step": step,
                "steps_to_baseline": share,
                "time_to_baseline": share * ours / theirs if share is not None and ours and theirs else None,
                "worth_steps": difference / base.slope if difference is not None and base.slope else None,
                "peak_memory_mib": number(run.get("peak_memory_mib")),
            }


def _differences(comparison: Comparison) -> dict[str, float]:
    """Mean difference of each variant, variant minus baseline."""
    rows = comparison.effects.rows if comparison.effects else ()
    return {row.label: row.contrast.mean for row in rows if row.contrast is not None}


def _done(variant: Variant) -> list[Record]:
    return [run for run in one_a_seed(variant.records) if run.get("status") == "done"]


def _steps(runs: Sequence[Record]) -> float | None:
    return _middle([steps for run in runs if (steps := within(config_of(run), "train", "steps")) is not None])


def _numbers(runs: Sequence[Record], key: str) -> list[float]:
    return [float(value) for run in runs if (value := number(run.get(key))) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _middle(values: Sequence[float]) -> float | None:
    return float(statistics.median(values)) if values else None


def _perplexity(loss: float | None) -> float | None:
    return math.exp(loss) if loss is not None and loss < LARGEST else None


def _notes(rows: Sequence[Further], base: _Baseline) -> Iterator[str]:
    if any(row.best_loss is not None for row in rows):
        yield "best loss: the least of a run's validations, mean over seeds, and the median of its step"
    first = rows[0].variant
    if any(row.reaches is not None for row in rows):
        yield (
            f"to {first}'s loss: where the mean validation curve first reaches its final loss, over its steps · in "
            "time: by the median time of a step"
        )
    if any(row.worth_steps is not None for row in rows):
        slope = f"{base.slope:.2g} nats a step"
        yield f"worth steps: Δ over the slope of {first}'s validation loss in the last quarter, {slope}"
    elif len(rows) > 1 and not is_dense(base.curve):
        yield f"steps to {first}'s loss and worth in steps: n/a below {CURVE_LEAST} validations (train.eval_every)"


def _known(value: float | None, form: Callable[[float], str]) -> str:
    return NONE if value is None else form(value)


def _spread(mean: float | None, sd: float | None) -> str:
    return NONE if mean is None else f"{mean:.4f}" + ("" if sd is None else f" ± {sd:.4f}")


def _times(row: Further, share: float | None) -> str:
    return NONE if row.reaches is None else NEVER if not row.reaches else _known(share, "{:.2f}×".format)


def _spikes(spikes: int | None, counted: int) -> str:
    return NONE if spikes is None else f"{spikes}/{counted}"


_CELLS: dict[str, Callable[[Row, Further], str]] = {
    "bits/\nbyte": lambda row, _: _known(row.bits_per_byte, "{:.4f}".format),
    "\nperplexity": lambda _, more: _known(more.perplexity, "{:#.4g}".format),
    "best\nloss": lambda _, more: _spread(more.best_loss, more.best_loss_sd),
    "at\nstep": lambda _, more: _known(more.best_step, "{:.0f}".format),
    "steps to\nbaseline loss": lambda _, more: _times(more, more.steps_to_baseline),
    "time to\nbaseline loss": lambda _, more: _times(more, more.time_to_baseline),
    "worth\nsteps": lambda _, more: _known(more.worth_steps, lambda steps: f"{round(steps):+d}"),
    "peak\nMiB": lambda _, more: _known(more.peak_memory_mib, "{:.0f}".format),
    "\nLR": lambda _, more: ", ".join(map(show, more.lr)) or NONE,
    "\nepochs": lambda row, _: _known(row.epochs, "{:.2f}".format),
    "spikes\nloss": lambda row, _: _spikes(row.spikes_loss, row.spikes_loss_counted),
    "spikes\ngrad norm": lambda row, _: _spikes(row.spikes_grad_norm, row.spikes_grad_norm_counted),
}

_GROUPS: Mapping[str, str] = {
    "best\nloss": "best",
    "at\nstep": "best",
    "spikes\nloss": "spikes",
    "spikes\ngrad norm": "spikes",
}
