"""Spikes by the two published rolling rules, ``olmo2(w=1000,k=7)`` and ``olmo-core(w=128,k=6)``.

Both compare a value with the mean and the population standard deviation of the ``w`` values before it, on the
loss and on the gradient norm as they are. They are here to be compared with published numbers;
``lab.stats.spikes.local`` sees more: the fall of an early loss fills these windows' standard deviation and hides
a jump of half a nat.

    * ``olmo2``: OLMo 2 (arXiv:2501.00656 section 3.2), the share of values 7 or more standard deviations away on
      either side of the mean of the latest 1,000. The paper does not say whether a value is in its own window,
      which standard deviation, and what of values that are not finite. Here it is not, the population's, and they
      are spikes that stay out of later windows, which hold the latest ``w`` finite values. Counted: the steps that
      have a full window, and those that are not finite.
    * ``olmo-core``: the ``StabilityMonitorCallback`` of OLMo-core, quirks included. Only upward; a standard
      deviation below 1e-10 flags nothing; spikes stay in the window; a value that is not a number is no spike and
      blinds the rule for the ``w`` steps that follow, an infinite one too, once flagged. Counted: all steps, those
      without a full window among them. In percent, where the callback has a fraction.

A series of two windows or less has no score: most of it was not judged.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from lab.stats.spikes import SCALE_LEAST, Bools, Floats, Spikes

OLMO2 = "olmo2(w=1000,k=7)"
"""The name to print beside every count of ``olmo2``."""

OLMO_CORE = "olmo-core(w=128,k=6)"
"""The name to print beside every count of ``olmo_core``."""

CALLBACK_SD_LEAST = 1e-10
"""Standard deviation below which OLMo-core's callback flags nothing."""


def olmo2(series: ArrayLike, *, w: int = 1000, k: float = 7.0) -> Spikes:
    """Judge every step by the ``w`` finite values before it, upward and downward.

    Args:
        series: loss, or gradient norm before clipping, one value a step.
        w: window, in values.
        k: standard deviations that make a spike.
    """
    x = _flat(series)
    finite = np.isfinite(x)
    flagged, counted = ~finite, ~finite
    at = np.flatnonzero(finite)[w:]
    if at.size:
        mean, sd = before(x[finite], w)
        with np.errstate(over="ignore", invalid="ignore"):
            flagged[at] = (sd > SCALE_LEAST) & (np.abs(x[at] - mean) >= k * sd)
        counted[at] = True
    return _found(flagged, int(counted.sum()), is_short=x.size <= 2 * w)


def olmo_core(*series: ArrayLike, w: int = 128, k: float = 6.0) -> Spikes:
    """Judge every step as OLMo-core's callback does; of several series a step is flagged where one of them is.

    Args:
        series: loss, gradient norm before clipping, or both, one value a step.
        w: window, in steps.
        k: standard deviations above the mean that make a spike.
    """
    every = [_flat(one) for one in series]
    steps = every[0].size
    assert all(x.size == steps for x in every), "the series have one value a step each"
    flagged = _any(steps, (_upward(x, w, k) for x in every))
    return _found(flagged, steps, is_short=steps <= 2 * w)


def before(x: Floats, w: int) -> tuple[Floats, Floats]:
    """Mean and population standard deviation of the ``w`` values before each of the values ``w``, ``w + 1``, ….

    The series is cut into blocks of ``w``. A window is the end of one block and the start of the next, each of
    which is summed up on its own by Welford's recurrence, and the two are merged by the formula of Chan, Golub and
    LeVeque (1979): nothing is ever subtracted from a sum, so a huge value leaves no trace in windows without it.
    """
    assert x.size > w
    n_blocks = -(-x.size // w)
    blocks = np.concatenate([x, np.zeros(n_blocks * w - x.size)]).reshape(n_blocks, w).T
    with np.errstate(over="ignore", invalid="ignore"):
        start_mean, start_m2 = _welford(blocks)
        end_mean, end_m2 = (part[::-1] for part in _welford(blocks[::-1]))
        # The window before value j of block b: values j … of block b - 1, and 0 … j - 1 of block b.
        n_start = np.arange(w, dtype=np.float64)[:, None]
        none = np.zeros((1, n_blocks - 1))
        start_mean = np.concatenate([none, start_mean[:-1, 1:]])
        start_m2 = np.concatenate([none, start_m2[:-1, 1:]])
        apart = np.where(n_start > 0, start_mean - end_mean[:, :-1], 0.0)
        share = n_start / w
        mean = end_mean[:, :-1] + apart * share
        m2 = end_m2[:, :-1] + start_m2 + apart * apart * (n_start * (1.0 - share))
        sd = np.sqrt(m2 / w)
    found = x.size - w
    return mean.T.reshape(-1)[:found], sd.T.reshape(-1)[:found]


def _welford(columns: Floats) -> tuple[Floats, Floats]:
    """Mean and sum of squared distances from it of the first 1, 2, 3, … rows of every column."""
    means, m2s = np.empty(columns.shape), np.empty(columns.shape)
    mean, m2 = np.zeros(columns.shape[1]), np.zeros(columns.shape[1])
    for n, row in enumerate(columns):
        off = row - mean
        mean = mean + off / (n + 1)
        m2 = m2 + off * (row - mean)
        means[n], m2s[n] = mean, m2
    return means, m2s


def _upward(x: Floats, w: int, k: float) -> Bools:
    flagged = np.zeros(x.size, dtype=np.bool_)
    if x.size > w:
        mean, sd = before(x, w)
        with np.errstate(over="ignore", invalid="ignore"):
            flagged[w:] = (sd >= CALLBACK_SD_LEAST) & (x[w:] > mean + k * sd)
    return flagged


def _any(steps: int, flags: Iterable[Bools]) -> Bools:
    found = np.zeros(steps, dtype=np.bool_)
    for one in flags:
        found |= one
    return found


def _flat(series: ArrayLike) -> Floats:
    return np.asarray(series, dtype=np.float64).reshape(-1)


def _found(flagged: Bools, counted: int, *, is_short: bool) -> Spikes:
    spikes = int(flagged.sum())
    score = None if is_short or not counted else 100.0 * spikes / counted
    return Spikes(score, spikes, counted, 0, tuple(int(step) for step in np.flatnonzero(flagged)))
