"""What the validations of runs tell beside the last one: the best, how soon a loss was reached, how fast it falls.

``result.json`` holds the validations of a run; of older results, and only where nothing was validated between, they
are its early and its final loss. Curves are averaged over the finished seeds of a variant, at the steps that all
have.
"""

import math
import statistics
from collections.abc import Iterable, Sequence

import numpy as np

from lab.report.rows import number, within
from lab.report.variants import Record, config_of

Curve = list[tuple[int, float]]
"""Steps, rising, each with its validation loss."""

CURVE_LEAST = 8
"""Validations below which nothing is read between them."""

END_SHARE = 0.25
"""The last part of a run, over which its slope is taken."""

END_LEAST = 3
"""Validations there, below which a slope is not measured."""


def curve_of(record: Record) -> Curve:
    """The validations of a run; empty where they are not known."""
    known = record.get("val_losses")
    if isinstance(known, list):
        return [(int(step), float(loss)) for step, loss in known if number(loss) is not None]
    train = config_of(record).get("train")
    steps = within(config_of(record), "train", "steps")
    if not isinstance(train, dict) or train.get("eval_every", 0) is not None or steps is None:
        return []
    both = ((math.ceil(steps / 8), record.get("early_loss")), (int(steps), record.get("final_loss")))
    return [(step, float(found)) for step, loss in both if (found := number(loss)) is not None]


def best(record: Record) -> tuple[int, float] | None:
    """The step of the least validation loss, and that loss."""
    loss, step = number(record.get("best_loss")), number(record.get("best_step"))
    if loss is not None and step is not None:
        return int(step), float(loss)
    return min(curve_of(record), key=lambda point: point[1], default=None)


def mean_curve(records: Iterable[Record]) -> Curve:
    """The mean over runs, at the steps at which all of them were validated."""
    curves = [dict(curve_of(record)) for record in records]
    shared = set.intersection(*map(set, curves)) if curves else set()
    return [(step, statistics.fmean(curve[step] for curve in curves)) for step in sorted(shared)]


def is_dense(curve: Curve) -> bool:
    """Whether something may be read between its points."""
    return len(curve) >= CURVE_LEAST


def first_at(curve: Curve, loss: float) -> float | None:
    """The step at which a curve first comes down to a loss, on straight lines between its points; None: never."""
    for n, (step, value) in enumerate(curve):
        if value <= loss:
            if n == 0:
                return float(step)
            before, above = curve[n - 1]
            return before + (step - before) * (above - loss) / (above - value)
    return None


def end_slope(curve: Curve) -> float | None:
    """Nats per step, negative, by a least-squares line through the last quarter of a curve.

    None where it is not measured: with fewer than three validations there, or where it is not below zero by twice
    its standard error.
    """
    last = curve[-1][0] if is_dense(curve) else 0
    end = [point for point in curve if point[0] >= (1 - END_SHARE) * last]
    if not last or len(end) < END_LEAST:
        return None
    steps, losses = np.array(end, dtype=np.float64).T
    steps = steps - steps.mean()
    squares = float(steps @ steps)
    slope = float(steps @ losses) / squares
    rest = losses - losses.mean() - slope * steps
    error = math.sqrt(float(rest @ rest) / (len(end) - 2) / squares)
    return slope if slope + 2 * error < 0 else None


def step_seconds(records: Sequence[Record]) -> float | None:
    """Median time of a step, by the runs' tokens/s."""
    found = []
    for record in records:
        tokens, pace = number(record.get("tokens")), number(record.get("tokens_per_s"))
        steps = within(config_of(record), "train", "steps")
        if tokens and pace and steps:
            found.append(tokens / steps / pace)
    return statistics.median(found) if found else None
