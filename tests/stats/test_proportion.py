import pytest
from each import for_each
from scipy.stats import beta, binom

from lab.stats.proportion import proportion


@pytest.mark.parametrize(("n", "percent"), [(3, 63), (5, 45), (10, 26)])
def test_what_no_divergence_still_allows(n, percent):
    assert round(100 * proportion(0, n).upper) == percent


@for_each([(k, n) for n in (1, 3, 8) for k in range(n + 1)])
def test_clopper_and_pearson(k, n):
    found = proportion(k, n)
    low = beta.ppf(0.025, k, n - k + 1) if k else 0.0
    high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
    assert found.interval == pytest.approx((low, high))
    assert found.upper == pytest.approx(1.0 if k == n else beta.ppf(0.95, k + 1, n - k))


def test_the_bounds_are_where_the_tails_are():
    found = proportion(2, 9)
    assert binom.sf(1, 9, found.interval[0]) == pytest.approx(0.025)
    assert binom.cdf(2, 9, found.interval[1]) == pytest.approx(0.025)
    assert binom.cdf(2, 9, found.upper) == pytest.approx(0.05)


def test_no_runs_and_no_sense():
    assert proportion(0, 0) is None
    for k, n in ((3, 2), (-1, 2)):
        with pytest.raises(AssertionError):
            proportion(k, n)
