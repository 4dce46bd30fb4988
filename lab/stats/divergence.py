"""When a run has diverged: a result, not a crash."""

import math
import re

import numpy as np
from numpy.typing import ArrayLike, NDArray

RISE_NATS = 0.5
"""How far above its best smoothed loss a run may end."""


def smoothing_window(steps: int) -> int:
    """Steps that one smoothed value averages: 2 percent of the run, and at least 8."""
    return max(8, math.ceil(0.02 * steps))


def diverged(loss: ArrayLike, *, warm: bool = False) -> str | None:
    """Why a finished run counts as diverged, or None.

    ``loss`` is the training loss of each step, in nats per token. A run has diverged when a loss is not finite, or
    when the mean of its last 2 percent of steps lies above the loss at the start, or more than 0.5 above the
    best such mean. Of a run that starts ``warm``, from trained weights, the loss at the start says nothing: it has
    fallen before, and stays where it is while what makes it is frozen.
    """
    series = np.asarray(loss, dtype=np.float64)
    if series.size == 0:
        return None
    bad = np.flatnonzero(~np.isfinite(series))
    if bad.size:
        return f"loss is not finite at step {bad[0] + 1}"
    means, window = _smoothed(series)
    last, best = float(means[-1]), float(means.min())
    if last > series[0] and window < series.size and not warm:
        return f"loss ended at {last:.3f}, above {series[0]:.3f} at the start"
    if last > best + RISE_NATS:
        return f"loss ended at {last:.3f}, more than {RISE_NATS} above its best, {best:.3f}"
    return None


def first_bad_step(loss: ArrayLike, reason: str, *, warm: bool = False) -> int | None:
    """The step, counted from 1, at which a run that diverged went bad.

    Where a number was not finite, its step. Else the first step from which on the smoothed loss, the mean of the
    last 2 percent of steps, stays above the bound that the run ended above: the loss at the start, or its best
    smoothed loss + 0.5. A rise that is made good does not count.

    Args:
        loss: as ``diverged`` takes it.
        reason: what was said of the run.
        warm: as ``diverged`` takes it.
    """
    named = re.search(r"not finite (?:at|after) step (\d+)", reason)
    if named:
        return int(named[1])
    series = np.asarray(loss, dtype=np.float64)
    if series.size == 0 or not np.isfinite(series).all():
        return None
    means, window = _smoothed(series)
    above_start = means[-1] > series[0] and window < series.size and not warm
    bound = series[0] if above_start else means.min() + RISE_NATS
    if means[-1] <= bound:
        return None
    below = np.flatnonzero(means <= bound)
    return int(below[-1] + 1 if below.size else 0) + window


def _smoothed(series: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Means of a few steps each, the first of which ends at the second value."""
    window = min(smoothing_window(series.size), series.size)
    return np.convolve(series, np.ones(window) / window, mode="valid"), window
