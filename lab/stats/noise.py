"""The noise floor: how far seeds of the baseline scatter, and how well so few of them tell."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, gammaln

from lab.stats.contrast import ALPHA, Losses


@dataclass(frozen=True, kw_only=True)
class Floor:
    """Scatter of one configuration over seeds."""

    n: int
    """Seeds with a finite loss."""

    mean: float
    """In nats per token."""

    sd: float
    """Standard deviation over seeds (ddof 1), in nats: the figure to print."""

    unbiased_sd: float
    """``sd / c4(n)``, right on average for normal losses: the figure to plan with."""

    interval: tuple[float, float]
    """Of the standard deviation, at 1 - alpha, from chi^2 with n - 1 degrees of freedom, for normal losses."""


def noise_floor(losses: Losses, *, alpha: float = ALPHA) -> Floor | None:
    """Scatter of the losses of one configuration, or None with fewer than two that are finite.

    The interval is ``sd sqrt(nu / q)`` with ``nu = n - 1`` and q the upper and lower quantile of chi^2 with nu
    degrees of freedom: 0.52 to 6.3 times the sd for 3 seeds, 0.60 to 2.9 times for 5.
    """
    y = np.asarray(losses, dtype=np.float64)
    y = y[np.isfinite(y)]
    if y.size < 2:
        return None
    sd, nu = float(y.std(ddof=1)), y.size - 1
    low, high = (sd * math.sqrt(nu / float(chdtri(nu, above))) for above in (alpha / 2, 1 - alpha / 2))
    return Floor(n=y.size, mean=float(y.mean()), sd=sd, unbiased_sd=sd / c4(y.size), interval=(low, high))


def c4(n: int) -> float:
    """Mean of the standard deviation of n normal values, in units of the true one: 0.886, 0.940, 0.965 for 3, 5, 8.

    ``sqrt(2 / (n - 1)) Gamma(n / 2) / Gamma((n - 1) / 2)``, for n of 2 or more.
    """
    assert n >= 2, "one value has no scatter"
    return math.sqrt(2 / (n - 1)) * math.exp(float(gammaln(n / 2) - gammaln((n - 1) / 2)))
