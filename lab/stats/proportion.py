"""How many of n runs diverged, with the exact interval of Clopper and Pearson (1934, Biometrika 26)."""

from dataclasses import dataclass

from lab.stats.contrast import ALPHA


@dataclass(frozen=True, kw_only=True)
class Proportion:
    """A count out of a number, and the share it stands for."""

    k: int
    """Runs that did, such as diverge."""

    n: int
    """Runs in all."""

    interval: tuple[float, float]
    """Of the share, two-sided, at 1 - alpha."""

    upper: float
    """The largest share that k of n still allows, one-sided, at 1 - alpha."""


def proportion(k: int, n: int, *, alpha: float = ALPHA) -> Proportion | None:
    """The share of k in n runs, from scipy's ``binomtest``; None of no runs.

    None out of 3 still allows 63 % (one-sided), none out of 5 45 %, none out of 10 26 %.
    """
    from scipy.stats import binomtest

    assert 0 <= k <= n, f"{k} of {n}"
    if n == 0:
        return None
    both = binomtest(k, n).proportion_ci(1 - alpha, method="exact")
    upper = binomtest(k, n, alternative="less").proportion_ci(1 - alpha, method="exact").high
    return Proportion(k=k, n=n, interval=(float(both.low), float(both.high)), upper=float(upper))
