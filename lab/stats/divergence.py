"""When a run has diverged: a result, not a crash."""

import math

import numpy as np
from numpy.typing import ArrayLike

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
    window = min(smoothing_window(series.size), series.size)
    means = np.convolve(series, np.ones(window) / window, mode="valid")
    last, best = float(means[-1]), float(means.min())
    if last > series[0] and window < series.size and not warm:
        return f"loss ended at {last:.3f}, above {series[0]:.3f} at the start"
    if last > best + RISE_NATS:
        return f"loss ended at {last:.3f}, more than {RISE_NATS} above its best, {best:.3f}"
    return None
