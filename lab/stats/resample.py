"""Intervals by resampling seeds (the percentile bootstrap; Efron 1979, Annals of Statistics 7)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lab.stats.contrast import ALPHA

DRAWS = 2000
"""Resamples; the same ones at each call with as many seeds."""

SEEDS_ENOUGH = 8
"""Seeds below which such an interval is rough: too narrow."""


def resampled(
    n: int, statistic: Callable[[NDArray[np.int_]], float], *, alpha: float = ALPHA
) -> tuple[float, float] | None:
    """Interval at 1 - alpha of a statistic of n seeds, or None with fewer than two, or where it is never a number.

    Args:
        n: seeds.
        statistic: of the numbers of n seeds, some drawn twice, counted from 0.
        alpha: share of the resamples left outside, half of it on each side.
    """
    if n < 2:
        return None
    draws = np.random.default_rng(0).integers(0, n, size=(DRAWS, n))
    values = np.array([statistic(draw) for draw in draws], dtype=np.float64)
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    low, high = np.quantile(values, (alpha / 2, 1 - alpha / 2))
    return float(low), float(high)
