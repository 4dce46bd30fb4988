"""Moderated t: paired differences of several variants, each variance drawn to the median of all (after Smyth 2004).

With 3 to 8 seeds a variance is known to a factor of two at best, and one that came out small by chance makes a star
of nothing. The rows of a study are trained alike and have similar variances, so each borrows from the others::

    s_i^2 = variance of d_i over its n_i pairs (ddof 1), nu_i = n_i - 1
    s_0^2 = median over i of s_i^2 / c(nu_i),   c(nu) = median of chi^2 with nu degrees of freedom / nu
    d_0   = min(4, K - 1),   K = rows with at least two pairs
    S_i^2 = (d_0 s_0^2 + nu_i s_i^2) / (d_0 + nu_i)
    t_i   = mean of d_i / (S_i / sqrt(n_i)),   with d_0 + nu_i degrees of freedom

The form is Smyth's (Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments, Statistical Applications in Genetics and Molecular Biology 3, article 3). He fits s_0 and d_0 to the
logarithms of thousands of variances; a study has too few for that, so here s_0 comes from a median, which one noisy
variant does not move, and d_0 is fixed: no more than the other rows can tell, and at most 4. Where variants lost
different seeds, each variance is divided by the c of its own degrees of freedom before the median is taken; with
equal n this is the median variance over c.

With K = 1 the test is the plain paired t. With n = 2 and three variants or more it rejects a true null up to three
times as often as it says; ``SEEDS_LEAST`` keeps words from such rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from lab.stats.contrast import ALPHA, Contrast, Floats, Losses, contrast

PRIOR_DF_MOST = 4
"""The most that all rows together count beside a row's own seeds, in degrees of freedom."""


@dataclass(frozen=True, kw_only=True)
class Moderated:
    """The contrasts of one study."""

    rows: tuple[Contrast | None, ...]
    """One for each row that was given, in its order; None where fewer than two pairs finished."""

    beside: tuple[Contrast | None, ...]
    """Likewise, of those that were given beside."""

    prior_sd: float | None
    """s_0, in nats: the typical standard deviation of a paired difference; None where no row has two pairs."""

    prior_df: int
    """d_0, the degrees of freedom that it counts for."""


def prior_df(rows: int) -> int:
    """d_0 of that many rows."""
    return max(0, min(PRIOR_DF_MOST, rows - 1))


def moderated(
    differences: Sequence[Losses] | Floats,
    *,
    m: int,
    alpha: float = ALPHA,
    beside: Sequence[Losses] | Floats = (),
) -> Moderated:
    """Test every row of paired differences.

    Args:
        differences: a row a variant and a column a seed, variant minus baseline, in nats; None or not finite where
            the seed did not finish in both.
        m: contrasts that the study declares, those without any seed included; their number widens the family
            intervals. The p of the rows are not corrected: ``lab.stats.holm`` does that.
            Rows that it does not declare may be among them, which lend their variance and are not judged.
        alpha: error rate.
        beside: more rows of as many seeds, such as interactions, which are made of the others and so have no say in
            s_0 and d_0.
    """
    rows = len(differences)
    if not rows and not len(beside):
        return Moderated(rows=(), beside=(), prior_sd=None, prior_df=0)
    d = np.array([np.asarray(row, dtype=np.float64) for row in (*differences, *beside)])
    finished = np.isfinite(d)
    n = finished.sum(axis=1)
    mean = np.where(finished, d, 0.0).sum(axis=1) / np.maximum(n, 1)
    squares = (np.where(finished, d - mean[:, None], 0.0) ** 2).sum(axis=1)
    tested, nu = n >= 2, n - 1.0
    own = tested & (np.arange(len(d)) < rows)
    d0 = prior_df(int(own.sum()))
    s0_squared = float(np.median(squares[own] / chdtri(nu[own], 0.5))) if own.any() else 0.0

    def test(i: int) -> Contrast:
        pairs, df = int(n[i]), float(d0 + nu[i])
        se = math.sqrt((d0 * s0_squared + squares[i]) / df / pairs)
        sd = math.sqrt(squares[i] / nu[i])
        return contrast(float(mean[i]), se, df, n=pairs, n_baseline=pairs, sd=sd, m=m, alpha=alpha)

    found = [test(i) if tested[i] else None for i in range(len(d))]
    return Moderated(
        rows=tuple(found[:rows]),
        beside=tuple(found[rows:]),
        prior_sd=math.sqrt(s0_squared) if own.any() else None,
        prior_df=d0,
    )
