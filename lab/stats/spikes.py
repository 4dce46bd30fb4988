"""Spikes of a training series by the project's own definition, ``local(w=128,k=7)``.

A point is a spike when it lies ``k`` robust standard deviations or more above the straight line through the
usable points among the ``w`` steps before it. The line takes out the fall of the loss and the median the
outliers, so that a jump at step 200 of a falling loss is seen; a rolling mean and standard deviation
(OLMo 2, arXiv:2501.00656 section 3.2) miss it. Every step goes in, unsmoothed: the loss as it is, and the
gradient norm before clipping as its logarithm (``log_norm``), since norms scatter by factors.

Rules:
    * A value that is not finite is a spike, counts as judged, and never enters a window.
    * With fewer than ``w_min`` usable points in the window a finite value is not judged: not counted.
    * A flagged point leaves the window: no later point is compared with it.
    * ``SHIFT_AFTER`` finite points flagged in a row are a level shift. One ``shift`` is reported, and the
      window starts empty after the last of them. They stay flagged and, like all flagged points, out of the
      window, so the next ``w_min`` usable points are not judged. Values that are not finite neither lengthen
      nor break such a row, because they have no level; a point that is not judged breaks it.
    * A residual scale of 1e-12 or less (a constant or exactly straight window) flags nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LOCAL = "local(w=128,k=7)"
"""The name to print beside every count."""

SHIFT_AFTER = 16
"""Finite points flagged in a row that make a level shift."""

SCALE_LEAST = 1e-12
"""Residual scale, in units of the series, at or below which nothing is flagged."""

MAD_TO_SD = 1.4826
"""Median absolute deviation to standard deviation, for normal residuals."""

_BLOCKS = (16, 512)
"""Smallest and largest number of steps judged at once."""


@dataclass(frozen=True)
class Spikes:
    """What was found in one series."""

    score: float | None
    """Spikes in percent of the judged steps; None when no step was judged."""

    spikes: int
    """Flagged steps, values that are not finite among them."""

    counted: int
    """Judged steps."""

    shifts: int
    """Level shifts, each of which restarted the window."""

    steps: tuple[int, ...]
    """The flagged steps, counted from 0."""


def log_norm(series: ArrayLike) -> Floats:
    """Gradient norms to their logarithms, without warnings.

    A norm of 0 becomes -inf, and a negative one (no norm at all) NaN: both are then counted as not finite, as
    are NaN and inf, which stay as they are.
    """
    norms = np.asarray(series, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(norms), dtype=np.float64)


def local(series: ArrayLike, *, w: int = 128, w_min: int = 32, k: float = 7.0) -> Spikes:
    """Judge every step of ``series``, one value a step, by the points before it.

    Args:
        series: loss in nats per token, or the logarithm of the gradient norm before clipping.
        w: window, in steps.
        w_min: usable points a window needs.
        k: robust standard deviations above the line that make a spike.
    """
    assert 2 <= w_min <= w, "a line needs two points, and the window must be able to hold them"
    x = np.asarray(series, dtype=np.float64).reshape(-1)
    flagged = ~np.isfinite(x)
    counted = flagged.copy()
    windows = _Windows(x, w=w, w_min=w_min, k=k)
    in_row = shifts = t = 0
    size = _BLOCKS[0]
    while t < x.size:
        # Judge a block as if nothing in it were flagged: right up to its first spike, where the next begins.
        stop = min(t + size, x.size)
        judged, high = windows.judge(t, stop)
        first = int(high.argmax()) if high.any() else None
        end = stop if first is None else t + first + 1
        counted[t:end] |= judged[: end - t]
        finite = np.isfinite(x[t:stop])
        if first is None:
            in_row = 0 if finite.any() else in_row
            size = min(2 * size, _BLOCKS[1])
        else:
            in_row = 1 if finite[:first].any() else in_row + 1
            flagged[end - 1] = True
            windows.drop(end - 1)
            size = _BLOCKS[0]
            if in_row == SHIFT_AFTER:
                windows.restart(end)
                shifts, in_row = shifts + 1, 0
        t = end
    spikes, n = int(flagged.sum()), int(counted.sum())
    steps = tuple(int(step) for step in np.flatnonzero(flagged))
    return Spikes(100.0 * spikes / n if n else None, spikes, n, shifts, steps)


class _Windows:
    """The windows of all steps, as rows of ``w`` columns, with a mask of the points that may be used."""

    def __init__(self, x: Floats, *, w: int, w_min: int, k: float) -> None:
        self.x, self.w, self.w_min, self.k = x, w, w_min, k
        self.usable: Bools = np.concatenate([np.zeros(w, dtype=np.bool_), np.isfinite(x)])
        values = np.concatenate([np.zeros(w), np.where(np.isfinite(x), x, 0.0)])
        # Row t holds steps t - w … t - 1; the padding before step 0 is not usable.
        self.masks = sliding_window_view(self.usable, w)
        self.rows = sliding_window_view(values, w)
        self.age: Floats = np.arange(-w, 0, dtype=np.float64)

    def drop(self, step: int) -> None:
        """Take one step out of all windows."""
        self.usable[self.w + step] = False

    def restart(self, step: int) -> None:
        """Take every step before ``step`` out of all windows."""
        self.usable[step : self.w + step] = False

    def judge(self, start: int, stop: int) -> tuple[Bools, Bools]:
        """For the steps ``start … stop - 1``: which can be judged, being finite, and which are too high."""
        mask, x = self.masks[start:stop], self.x[start:stop]
        n = mask.sum(axis=1)
        judged = np.isfinite(x) & (n >= self.w_min)
        high = np.zeros_like(judged)
        if judged.any():
            rows = self.rows[start:stop][judged]
            with np.errstate(over="ignore", invalid="ignore"):
                high[judged] = self._too_high(x[judged], rows, mask[judged], n[judged])
        return judged, high

    def _too_high(self, x: Floats, rows: Floats, mask: Bools, n: NDArray[np.int_]) -> Bools:
        count = n[:, None].astype(np.float64)
        age = np.where(mask, self.age, 0.0)
        mean_age = age.sum(axis=1, keepdims=True) / count
        mean = np.where(mask, rows, 0.0).sum(axis=1, keepdims=True) / count
        age = np.where(mask, self.age - mean_age, 0.0)
        y = rows - mean
        slope = (age * y).sum(axis=1, keepdims=True) / (age * age).sum(axis=1, keepdims=True)
        residual = np.where(mask, y - slope * age, np.inf)
        residual = np.abs(residual - _median(residual, n))
        scale = MAD_TO_SD * _median(residual, n)[:, 0]
        line = mean[:, 0] - slope[:, 0] * mean_age[:, 0]
        return np.asarray((scale > SCALE_LEAST) & (x - line >= self.k * scale), dtype=np.bool_)


def _median(values: Floats, n: NDArray[np.int_]) -> Floats:
    """Median of the ``n`` finite values of each row, the rest being +inf, as a column."""
    ordered = np.sort(values, axis=1)
    low = np.take_along_axis(ordered, ((n - 1) // 2)[:, None], axis=1)
    high = np.take_along_axis(ordered, (n // 2)[:, None], axis=1)
    return np.asarray(0.5 * (low + high), dtype=np.float64)
