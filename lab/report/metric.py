"""Numbers of runs by name: a dotted path into a result, or what an arm's runs at all learning rates come to.

Of a run that diverged a number is infinite, but where it tells nothing of the trained weights, such as a speed.
Of a grid of learning rates there is one number a seed: ``lr_sensitivity`` and ``best_loss`` of its losses, and
``first_diverging_lr``, the smallest rate at which it diverged, as log2; a seed that never did counts as one step of
the grid beyond the last rate.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from lab.report.notes import si
from lab.report.rows import number, within
from lab.report.variants import Record, Variant, config_of, replicate, show
from lab.stats.lr_sensitivity import sensitivity

UNTOUCHED = (
    "tokens_per_s",
    "tokens",
    "epochs",
    "parameters",
    "flops_per_token",
    "peak_memory_mib",
    "init_loss",
    "measures.cache",
    "measures.gradients",
    "measures.step",
)
"""Beginnings of numbers that a run has whether it diverged or not."""

Seed = tuple[int, int]
"""``seed`` and ``study_seed``."""

Curve = Mapping[float, float | None]
"""Losses of one seed by learning rate: infinite where it diverged, None where there is no result."""


def value_of(record: Record, metric: str) -> float | None:
    """The number of a run: infinite where it diverged, None where there is none."""
    found = within(record, *metric.split("."))
    if record.get("status") == "done" or (record.get("status") == "diverged" and _is_untouched(metric)):
        return found
    return math.inf if record.get("status") == "diverged" else None


def _is_untouched(metric: str) -> bool:
    return any(metric == name or metric.startswith(f"{name}.") for name in UNTOUCHED)


def is_of_grid(metric: str) -> bool:
    """Whether it is of all learning rates of an arm, and not of one run."""
    return metric in _OF_GRID


def values(metric: str, runs: Iterable[Record], grid: Sequence[float] = ()) -> dict[Seed, float | None]:
    """The number of each seed of an arm.

    Args:
        metric: its name.
        runs: of the arm, one a seed; for numbers of a grid one a seed and rate.
        grid: the rates that count, rising; for numbers of a grid.
    """
    if not is_of_grid(metric):
        return {replicate(run): value_of(run, metric) for run in runs}
    runs = list(runs)
    curves: dict[Seed, dict[float, float | None]] = {}
    for run in runs:
        lr = within(config_of(run), "optim", "lr")
        rate = next((rate for rate in grid if lr is not None and math.isclose(rate, lr)), None)
        if rate is not None:
            curves.setdefault(replicate(run), {})[rate] = value_of(run, "final_loss")
    loss_0 = _loss_0(runs)
    return {seed: _OF_GRID[metric](curve, grid, loss_0) for seed, curve in sorted(curves.items())}


def of_arm(label: str, runs: Sequence[Record], metric: str, grid: Sequence[float] = ()) -> Variant:
    """An arm whose records have the number under its name, one record a seed."""
    if not is_of_grid(metric):
        return Variant(label, {}, tuple(runs))
    first: dict[Seed, Record] = {}
    for run in runs:
        first.setdefault(replicate(run), run)
    found = values(metric, runs, grid)
    records = [
        {**first[seed], "status": "diverged" if value == math.inf else "done", metric: value}
        for seed, value in found.items()
    ]
    return Variant(label, {}, tuple(records))


def said(metric: str, found: Iterable[float | None], grid: Sequence[float] = ()) -> str:
    """The mean over seeds as a number to read: a learning rate as a rate, ``> last`` where no seed diverged."""
    known = [value for value in found if value is not None]
    if not known:
        return "–"
    if any(math.isinf(value) for value in known):
        return "diverged"
    mean = statistics.fmean(known)
    if metric != "first_diverging_lr":
        return si(mean) if abs(mean) >= 1000 else f"{mean:.4g}"
    beyond = sum(value > math.log2(grid[-1]) + 1e-9 for value in known)
    if beyond == len(known):
        return f"> {show(grid[-1])}"
    return f"{2**mean:.3g}" + (f" ({beyond} of {len(known)} > {show(grid[-1])})" if beyond else "")


def grid_step(grid: Sequence[float]) -> float:
    """From one rate to the next, in octaves, on average; 0 where there is one rate."""
    return math.log2(grid[-1] / grid[0]) / (len(grid) - 1) if len(grid) > 1 else 0.0


def _loss_0(runs: Sequence[Record]) -> float | None:
    """Loss at initialization: the first of the runs, on average; of old results that of a guess."""
    known = [loss for run in runs if (loss := number(run.get("init_loss"))) is not None]
    vocab = next((v for run in runs if (v := within(config_of(run), "tokenizer", "vocab_size"))), None)
    return statistics.fmean(known) if known else math.log(vocab) if vocab else None


def _sensitivity(curve: Curve, grid: Sequence[float], loss_0: float | None) -> float | None:
    losses = [curve.get(rate) for rate in grid]
    known = [loss for loss in losses if loss is not None]
    if len(known) < len(losses) or loss_0 is None:
        return None
    found = sensitivity(np.minimum(np.array([known], dtype=np.float64), loss_0))
    return found if math.isfinite(found) else None


def _best(curve: Curve, grid: Sequence[float], loss_0: float | None) -> float | None:
    known = [loss for rate in grid if (loss := curve.get(rate)) is not None]
    return min(known) if len(known) == len(grid) else None


def _first_diverging(curve: Curve, grid: Sequence[float], loss_0: float | None) -> float | None:
    for rate in grid:
        loss = curve.get(rate)
        if loss is None:
            return None
        if math.isinf(loss):
            return math.log2(rate)
    return math.log2(grid[-1]) + grid_step(grid)


_OF_GRID: dict[str, Callable[[Curve, Sequence[float], float | None], float | None]] = {
    "lr_sensitivity": _sensitivity,
    "best_loss": _best,
    "first_diverging_lr": _first_diverging,
}
