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

from dataclasses import dataclass, field

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

_BLOCKS = (16, 1024)
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

    largest: float | None = field(default=None, compare=False)
    """The largest distance above the line of a judged finite step, in units of the series; of ``local`` only."""


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
    largest = -np.inf
    while t < x.size:
        # Judge a block as if nothing in it were flagged: right up to its first spike, where the next begins.
        stop = min(t + size, x.size)
        judged, high, above = windows.judge(t, stop)
        first = int(high.argmax()) if high.any() else None
        end = stop if first is None else t + first + 1
        counted[t:end] |= judged[: end - t]
        largest = max(largest, float(above[: end - t].max()))
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
    score = 100.0 * spikes / n if n else None
    return Spikes(score, spikes, n, shifts, steps, largest if np.isfinite(largest) else None)


class _Windows:
    """The windows of all steps, as rows of ``w`` columns, with a mask of the points that may be used."""

    def __init__(self, x: Floats, *, w: int, w_min: int, k: float) -> None:
        self.x, self.w, self.w_min, self.k = x, w, w_min, k
        self.usable: Bools = np.concatenate([np.zeros(w, dtype=np.bool_), np.isfinite(x)])
        values = np.concatenate([np.zeros(w), np.where(np.isfinite(x), x, 0.0)])
        # Row t holds steps t - w … t - 1; the padding before step 0 is not usable.
        self.masks = sliding_window_view(self.usable, w)
        self.rows = sliding_window_view(values, w)

    def drop(self, step: int) -> None:
        """Take one step out of all windows."""
        self.usable[self.w + step] = False

    def restart(self, step: int) -> None:
        """Take every step before ``step`` out of all windows."""
        self.usable[step : self.w + step] = False

    def judge(self, start: int, stop: int) -> tuple[Bools, Bools, Floats]:
        """For the steps ``start … stop - 1``: which can be judged, being finite; which are too high; how high."""
        mask, x = self.masks[start:stop], self.x[start:stop]
        n = mask.sum(axis=1)
        judged = np.isfinite(x) & (n >= self.w_min)
        high, above = np.zeros_like(judged), np.full(x.size, -np.inf)
        if judged.any():
            rows = self.rows[start:stop][judged]
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                high[judged], above[judged] = self._too_high(x[judged], rows, mask[judged], n[judged])
        return judged, high, above

    def _too_high(self, x: Floats, rows: Floats, mask: Bools, n: NDArray[np.int_]) -> tuple[Bools, Floats]:
        full = bool((n == self.w).all())
        y, age, mean, mean_age, slope = _full_lines(rows) if full else _lines(rows, mask, n)
        above = x - (mean[:, 0] - slope[:, 0] * mean_age[:, 0])
        high = above > 0.0  # a scale is never negative: what lies below the line needs none
        at = np.flatnonzero(high)
        if full and at.size:
            residual = y[at]
            residual -= slope[at] * age
            near = _near(residual, above[at] / (self.k * MAD_TO_SD))
            at, residual, mask, n = at[near], residual[near], mask[at[near]], n[at[near]]
            high[:] = False
        elif at.size:
            mask, n = mask[at], n[at]
            residual = y[at] - slope[at] * age[at]
            residual[~mask] = np.inf
        if at.size:
            residual = np.abs(residual - _median(residual, n))
            scale = MAD_TO_SD * _median(residual, n)[:, 0]
            high[at] = (scale > SCALE_LEAST) & (above[at] >= self.k * scale)
        return high, np.where(np.isfinite(above), above, -np.inf)


def _lines(rows: Floats, mask: Bools, n: NDArray[np.int_]) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Of each row, least squares: values and ages less their means, both means, and the slope."""
    ages: Floats = np.arange(-rows.shape[1], 0, dtype=np.float64)
    count = n[:, None].astype(np.float64)
    mean_age = np.where(mask, ages, 0.0).sum(axis=1, keepdims=True) / count
    mean = np.where(mask, rows, 0.0).sum(axis=1, keepdims=True) / count
    age = np.where(mask, ages - mean_age, 0.0)
    y = rows - mean
    return y, age, mean, mean_age, (age * y).sum(axis=1, keepdims=True) / (age * age).sum(axis=1, keepdims=True)


def _full_lines(rows: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """The same where every point may be used: one row of ages does for all."""
    w = rows.shape[1]
    age: Floats = np.arange(w, dtype=np.float64)[None] - 0.5 * (w - 1)
    mean = rows.mean(axis=1, keepdims=True)
    y = rows - mean
    slope = (y @ age.T) / (age * age).sum()
    return y, age, mean, np.full((1, 1), -0.5 * (w + 1)), slope


def _near(residual: Floats, reach: Floats) -> Bools:
    """In which rows half of the residuals may lie within ``reach`` of their median: the others need no median.

    Where no more than half lie below -c and above c, the median is between; so what is within ``reach`` of it is
    within c + ``reach`` of 0. Any c would do; a quarter of the standard deviation leaves few rows open.
    """
    most = (residual.shape[1] - 1) // 2
    square = np.einsum("ij,ij->i", residual, residual)
    centre = 0.25 * np.sqrt(square / residual.shape[1])
    outside = np.abs(residual)
    is_far = outside > ((centre + reach) * (1.0 + 1e-9))[:, None]
    is_open = np.isnan(square) | np.isinf(square) | (_count(~is_far) > most)
    is_open |= _count(residual > centre[:, None]) > most
    is_open |= _count(residual < -centre[:, None]) > most
    return np.asarray(is_open, dtype=np.bool_)


def _count(marks: Bools) -> NDArray[np.int_]:
    """How many of each row are set, by the vector units."""
    return np.asarray(marks.view(np.uint8).sum(axis=1, dtype=np.uint32), dtype=np.int_)


def _median(values: Floats, n: NDArray[np.int_]) -> Floats:
    """Median of the ``n`` finite values of each row, the rest being +inf, as a column."""
    if n.min() == n.max():
        low_at, high_at = (int(n[0]) - 1) // 2, int(n[0]) // 2
        ordered = np.partition(values, sorted({low_at, high_at}), axis=1)
        return np.asarray(0.5 * (ordered[:, [low_at]] + ordered[:, [high_at]]), dtype=np.float64)
    ordered = np.sort(values, axis=1)
    low = np.take_along_axis(ordered, ((n - 1) // 2)[:, None], axis=1)
    high = np.take_along_axis(ordered, (n // 2)[:, None], axis=1)
    return np.asarray(0.5 * (low + high), dtype=np.float64)


def heights(series: ArrayLike, found: Spikes, *, w: int = 128, w_min: int = 32) -> tuple[float | None, ...]:
    """How high above the line each spike of ``local`` lies, in robust standard deviations.

    Args:
        series: what ``local`` judged.
        found: what it found there.
        w: its window.
        w_min: its least number of usable points.

    Returns:
        A height for each of ``found.steps``; None for a value that is not finite.
    """
    x = np.asarray(series, dtype=np.float64).reshape(-1)
    windows = _Windows(x, w=w, w_min=w_min, k=0.0)
    made: list[float | None] = []
    in_row, last = 0, -2
    for step in found.steps:
        in_row = in_row if step == last + 1 else 0
        last = step
        if not np.isfinite(x[step]):
            made.append(None)
            continue
        made.append(_height(x[step : step + 1], windows.rows[step : step + 1], windows.masks[step : step + 1]))
        windows.drop(step)
        in_row += 1
        if in_row == SHIFT_AFTER:
            windows.restart(step + 1)
            in_row = 0
    return tuple(made)


def _height(x: Floats, rows: Floats, mask: Bools) -> float | None:
    n = mask.sum(axis=1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        y, age, mean, mean_age, slope = _lines(rows, mask, n)
        residual = np.where(mask, y - slope * age, np.inf)
        residual = np.abs(residual - _median(residual, n))
        found = float(((x[:, None] - mean + slope * mean_age) / (MAD_TO_SD * _median(residual, n)))[0, 0])
    return found if np.isfinite(found) else None
