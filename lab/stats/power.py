"""What a planned study can see: power of the moderated test, smallest visible effect, seeds needed.

A study compares m variants with one baseline over n paired seeds. Losses are normal with standard deviation sd over
seeds and correlation rho within a seed, so that a paired difference has ``sd sqrt(2 (1 - rho))``. A variant is seen
when its two-sided p is below alpha / m, Holm's bound while nothing else is seen. Means and variances of normal
differences are independent, so with ``delta = effect sqrt(n) / (sd sqrt(2 (1 - rho)))``, c the critical t of
d_0 + n - 1 degrees of freedom and S the shrunken standard deviation in units of the true one::

    power = E[Phi(delta - c S) + Phi(-delta - c S)]

Were S^2 distributed as chi^2 over its degrees of freedom, this would be the noncentral t. For m = 1 it is. For more
it is a little wider, since all rows share the seeds of the baseline and s_0 is a median of few: the noncentral t
calls the smallest visible effect 4 to 7 % too small at n = 3, 1 to 2 % at 5, under 1 % from 8. So the mean goes
over draws of S, which depend on n and m alone; they are drawn once, from a fixed seed, and tell effects to 0.3 %.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import chdtri, ndtr, stdtrit

from lab.stats.contrast import ALPHA, SEEDS_LEAST, Floats
from lab.stats.moderated import prior_df

POWER = 0.8
"""Chance to see an effect that is called visible."""

SEEDS_MOST = 1000
"""Where looking for enough seeds ends."""

_DRAWS = 32_768
"""Variances drawn for one n and m."""

_STRATA = 256
"""Values of what all rows share among them."""

_QUANTILES = 1024
"""Points that stand for their distribution."""


def power_at(effect: float, *, sd: float, n: int, m: int, rho: float, alpha: float = ALPHA) -> float:
    """Chance that a true difference is seen.

    Args:
        effect: true difference between variant and baseline, in the unit of ``sd``; the sign does not matter.
        sd: standard deviation of a loss over seeds, above 0.
        n: paired seeds, 2 or more.
        m: contrasts that the study declares, each with n seeds.
        rho: correlation over seeds of variant and baseline, below 1; 0 is cautious.
        alpha: error rate of the whole family, two-sided.
    """
    assert sd > 0, "without scatter every difference is seen"
    return _power(abs(effect) / _unit(sd, n, rho), n, m, alpha)


def smallest_effect(
    sd: float, *, n: int, m: int, rho: float, alpha: float = ALPHA, power: float = POWER
) -> float | None:
    """The difference that is seen with chance ``power``, in the unit of ``sd``: the MDE.

    Arguments as those of ``power_at``. None with fewer than two seeds, which cannot be tested.
    """
    if n < 2:
        return None
    assert _power(0.0, n, m, alpha) < power < 1, "more than the rate of false positives, and never certain"
    low, high = 0.0, 1.0
    while _power(high, n, m, alpha) < power:
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _power(middle, n, m, alpha) < power else (low, middle)
    return high * _unit(sd, n, rho)


def seeds_needed(
    effect: float, *, sd: float, m: int, rho: float, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """The fewest paired seeds that see ``effect`` with chance ``power``.

    Arguments as those of ``power_at``. At least 3, as fewer get no verdict; None where ``SEEDS_MOST`` are too few.
    """

    def enough(n: int) -> bool:
        return power_at(effect, sd=sd, n=n, m=m, rho=rho, alpha=alpha) >= power

    low, high = SEEDS_LEAST - 1, SEEDS_LEAST
    while not enough(high):
        if high == SEEDS_MOST:
            return None
        low, high = high, min(2 * high, SEEDS_MOST)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def planning_table(
    m: int, *, seeds: Sequence[int] = (3, 5, 8, 16), rhos: Sequence[float] = (0.0, 0.5, 0.8)
) -> dict[int, dict[float, float | None]]:
    """Smallest visible effects in units of sd, for m contrasts: by seeds, then by correlation."""
    return {n: {rho: smallest_effect(1.0, n=n, m=m, rho=rho) for rho in rhos} for n in seeds}


def _unit(sd: float, n: int, rho: float) -> float:
    """Standard error of a mean paired difference, from its true variance."""
    assert -1 <= rho <= 1, f"a correlation of {rho}"
    return float(sd * np.sqrt(2 * (1 - rho) / n))


def _power(delta: float, n: int, m: int, alpha: float) -> float:
    """Power at an effect of ``delta`` standard errors."""
    bounds = -float(stdtrit(prior_df(m) + n - 1, alpha / m / 2)) * _scales(n, m)
    return float((ndtr(delta - bounds) + ndtr(-delta - bounds)).mean())


@lru_cache(maxsize=4096)
def _scales(n: int, m: int) -> Floats:
    """Quantiles of a row's shrunken standard deviation in units of the true one; read only.

    The residuals of the seeds have nu = n - 1 dimensions, and those of the baseline, of squared length q, stand in
    every row. Turned so that they lie along the first, ``2 nu s_i^2`` is ``(z + sqrt(q))^2`` plus a chi^2 of the
    other nu - 1; q goes through equal strata of its own chi^2.
    """
    nu, d0 = n - 1, prior_df(m)
    if m == 1:
        scales = np.sqrt(chdtri(nu, 1 - _middles(_QUANTILES)) / nu)
    else:
        generator = np.random.default_rng(0)
        q = chdtri(nu, 1 - _middles(_STRATA))[:, None, None]
        shape = (_STRATA, -(-_DRAWS // (_STRATA * m)), m)
        squares = (generator.standard_normal(shape) + np.sqrt(q)) ** 2
        if nu > 1:
            squares += generator.chisquare(nu - 1, shape)
        variances = squares / (2 * nu)
        s0_squared = np.median(variances, axis=-1, keepdims=True) * nu / chdtri(nu, 0.5)
        ordered = np.sort((d0 * s0_squared + nu * variances).ravel() / (d0 + nu))
        scales = np.sqrt(ordered[(_middles(_QUANTILES) * ordered.size).astype(int)])
    scales.flags.writeable = False
    return np.asarray(scales, dtype=np.float64)


def _middles(count: int) -> Floats:
    """The middles of so many equal parts of 0 to 1."""
    return (np.arange(count) + 0.5) / count
