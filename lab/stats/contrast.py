"""One variant against its baseline: paired t and Welch's unequal-variances t (Welch 1947), both from scipy.

Losses are in nats per token and differences are variant minus baseline, so that negative is better. Seeds that did
not end with a finite loss (None, NaN, or the +inf of a diverged run) are left out, pairwise where rows are paired.
Averages over the survivors are biased when runs diverged; whoever prints them says how many did.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]

Losses = Sequence[float | None] | Floats
"""One loss a seed, in nats per token; None or a value that is not finite where there is none."""

ALPHA = 0.05
"""Rate of false positives that is allowed, two-sided."""

SEEDS_LEAST = 3
"""Seeds below which no word is said of a contrast, whatever its p."""


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One difference and how sure it is."""

    n: int
    """Seeds of the variant, which are pairs where the row is paired."""

    n_baseline: int
    """Seeds of the baseline."""

    mean: float
    """Mean difference, in nats; negative is better."""

    sd: float | None
    """Standard deviation of the paired differences, as measured (ddof 1); None where the row is not paired."""

    se: float
    """Standard error of the mean difference, by the test's own variance."""

    df: float
    """Degrees of freedom of t."""

    t: float
    """``mean / se``. Without any scatter 0 for a mean of 0, else an infinity."""

    p: float
    """Two-sided, not corrected for the number of contrasts."""

    interval: tuple[float, float]
    """Of the mean difference, at 1 - alpha: for display."""

    family_interval: tuple[float, float]
    """Of the mean difference, at 1 - alpha / m, so that all m hold at once (Bonferroni): for verdicts.

    A little wider than Holm's p, so it may hold 0 where that p is below alpha."""

    @property
    def arm_sd(self) -> float:
        """Scatter of one of two arms over seeds, beyond what pairs share, that has this standard error."""
        return self.se * math.sqrt(min(self.n, self.n_baseline) / 2)

    def times(self, factor: float) -> "Contrast":
        """The same of values that are larger by a positive factor."""
        low, high = self.interval
        family_low, family_high = self.family_interval
        return replace(
            self,
            mean=factor * self.mean,
            sd=None if self.sd is None else factor * self.sd,
            se=factor * self.se,
            interval=(factor * low, factor * high),
            family_interval=(factor * family_low, factor * family_high),
        )


def contrast(
    mean: float, se: float, df: float, *, n: int, n_baseline: int, sd: float | None, m: int, alpha: float = ALPHA
) -> Contrast:
    """The t statistic, p and intervals of a mean with its standard error.

    Args:
        mean: difference, in nats.
        se: its standard error; 0 without any scatter.
        df: degrees of freedom of ``se``.
        n: seeds of the variant.
        n_baseline: seeds of the baseline.
        sd: of the paired differences.
        m: contrasts that the study declares.
        alpha: error rate.
    """
    assert m >= 1, "a contrast belongs to a family of at least itself"
    t = mean / se if se > 0 else math.copysign(math.inf, mean) if mean else 0.0
    plain, family = (-se * float(stdtrit(df, tail / 2)) for tail in (alpha, alpha / m))
    return Contrast(
        n=n,
        n_baseline=n_baseline,
        mean=mean,
        sd=sd,
        se=se,
        df=df,
        t=t,
        p=2.0 * float(stdtr(df, -abs(t))),
        interval=(mean - plain, mean + plain),
        family_interval=(mean - family, mean + family),
    )


def paired(variant: Losses, baseline: Losses, *, m: int = 1, alpha: float = ALPHA) -> Contrast | None:
    """Plain paired t, or None with fewer than two pairs: scipy's ``ttest_rel`` over the seeds finished in both.

    Args:
        variant: losses by seed.
        baseline: losses of the same seeds, in the same order.
        m: contrasts that the study declares.
        alpha: error rate.
    """
    from scipy.stats import ttest_rel

    y, y0 = _numbers(variant), _numbers(baseline)
    both = np.isfinite(y) & np.isfinite(y0)
    n = int(both.sum())
    if n < 2:
        return None
    d = y[both] - y0[both]
    sd = float(d.std(ddof=1))
    if sd == 0:
        return contrast(float(d.mean()), 0.0, n - 1, n=n, n_baseline=n, sd=sd, m=m, alpha=alpha)
    return _scipys(ttest_rel, y[both], y0[both], se=sd / math.sqrt(n), sd=sd, m=m, alpha=alpha)


def welch(variant: Losses, baseline: Losses, *, m: int = 1, alpha: float = ALPHA) -> Contrast | None:
    """Welch's t for rows that do not share batches, or None with fewer than two seeds on a side.

    From scipy's ``ttest_ind``; the degrees of freedom are Welch's and Satterthwaite's.

    Args:
        variant: losses.
        baseline: losses, of any seeds.
        m: contrasts that the study declares.
        alpha: error rate.
    """
    from scipy.stats import ttest_ind

    y, y0 = (losses[np.isfinite(losses)] for losses in map(_numbers, (variant, baseline)))
    n, n0 = y.size, y0.size
    if min(n, n0) < 2:
        return None
    se = math.sqrt(y.var(ddof=1) / n + y0.var(ddof=1) / n0)
    if se == 0:
        mean = float(y.mean() - y0.mean())
        return contrast(mean, se, min(n, n0) - 1, n=n, n_baseline=n0, sd=None, m=m, alpha=alpha)
    return _scipys(partial(ttest_ind, equal_var=False), y, y0, se=se, sd=None, m=m, alpha=alpha)


def welch_sum(
    plus: Sequence[Losses], minus: Sequence[Losses], *, m: int = 1, alpha: float = ALPHA
) -> Contrast | None:
    """Welch's t for a sum of several rows less that of several others, or None with fewer than two seeds of any.

    The standard error is that of independent means, the degrees of freedom are Welch's and Satterthwaite's; of one
    row less one other it is ``welch``. No package that we use has it for more.

    Args:
        plus: losses of each row that is added.
        minus: of each that is taken away.
        m: contrasts that the study declares.
        alpha: error rate.
    """
    sides = [[y[np.isfinite(y)] for y in map(_numbers, rows)] for rows in (plus, minus)]
    rows = [*sides[0], *sides[1]]
    if min(y.size for y in rows) < 2:
        return None
    shares = [float(y.var(ddof=1)) / y.size for y in rows]
    total = sum(shares)
    below = sum(share**2 / (y.size - 1) for share, y in zip(shares, rows, strict=True))
    df = total**2 / below if below > 0 else float(min(y.size for y in rows) - 1)
    mean = sum(float(y.mean()) for y in sides[0]) - sum(float(y.mean()) for y in sides[1])
    n, n0 = (min(y.size for y in side) for side in sides)
    return contrast(mean, math.sqrt(total), df, n=n, n_baseline=n0, sd=None, m=m, alpha=alpha)


def differences(variants: Sequence[Losses], baseline: Losses) -> Floats:
    """Paired differences, a row a variant and a column a seed; NaN where either side has no finite loss."""
    y0 = _numbers(baseline)
    rows = np.array([_numbers(variant) for variant in variants]).reshape(len(variants), y0.size)
    both = np.isfinite(rows) & np.isfinite(y0)
    return np.asarray(np.where(both, rows, np.nan) - np.where(np.isfinite(y0), y0, np.nan), dtype=np.float64)


def pairing_correlation(variants: Sequence[Losses], baseline: Losses) -> float | None:
    """What pairing is worth: the pooled correlation over seeds of variant and baseline.

    ``rho = 1 - sum_i (n_i - 1) var(y_i - y_0) / sum_i (n_i - 1) (var(y_i) + var(y_0))``, each over the n_i seeds
    finished in both: pooled variances, not an average of correlations, because the variance of a difference, which
    is what a test feels, is then ``2 (1 - rho)`` times that of a loss. One correlation from 5 seeds has a standard
    error near 0.45: print it, and never choose a test by it. None without two pairs in any row, or without scatter.
    """
    y0 = _numbers(baseline)
    apart = single = 0.0
    for variant in variants:
        y = _numbers(variant)
        both = np.isfinite(y) & np.isfinite(y0)
        if both.sum() >= 2:
            weight = float(both.sum() - 1)
            apart += weight * float((y[both] - y0[both]).var(ddof=1))
            single += weight * float(y[both].var(ddof=1) + y0[both].var(ddof=1))
    return 1.0 - apart / single if single > 0 else None


def _numbers(losses: Losses) -> Floats:
    """As an array; None becomes NaN."""
    return np.asarray(losses, dtype=np.float64)


def _scipys(
    test: Callable[..., Any], y: Floats, y0: Floats, *, se: float, sd: float | None, m: int, alpha: float
) -> Contrast:
    """What a test of scipy finds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # scatter near rounding
        found = test(y, y0)
    plain, family = (found.confidence_interval(1 - tail) for tail in (alpha, alpha / m))
    return Contrast(
        n=y.size,
        n_baseline=y0.size,
        mean=float(y.mean() - y0.mean()),
        sd=sd,
        se=se,
        df=float(found.df),
        t=float(found.statistic),
        p=float(found.pvalue),
        interval=(float(plain.low), float(plain.high)),
        family_interval=(float(family.low), float(family.high)),
    )
