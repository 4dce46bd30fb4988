import math

import numpy as np
import pytest
from each import for_each
from scipy import stats

from lab.stats.contrast import paired, welch
from lab.stats.equivalence import equivalence
from lab.stats.moderated import moderated


@for_each(range(8))
def test_two_one_sided_tests_of_scipy(seed):
    d = np.random.default_rng(seed).normal(0.005, 0.02, 6)
    (row,) = moderated([d], m=1).rows
    found = equivalence(row, margin=0.02)
    above = stats.ttest_1samp(d, -0.02, alternative="greater").pvalue
    below = stats.ttest_1samp(d, 0.02, alternative="less").pvalue
    assert found.p == pytest.approx(max(above, below), rel=1e-9)
    assert found.interval == pytest.approx(tuple(stats.ttest_1samp(d, 0).confidence_interval(0.90)))
    assert found.equivalent == (found.p < 0.05) == (max(map(abs, found.interval)) < 0.02)


def test_the_series_hold_both_answers():
    rows = [moderated([np.random.default_rng(s).normal(0.005, 0.02, 6)], m=1).rows[0] for s in range(8)]
    assert {equivalence(row, margin=0.02).equivalent for row in rows} == {True, False}


def test_an_unpaired_row():
    rng = np.random.default_rng(1)
    y, y0 = rng.normal(2.3, 0.01, 6), rng.normal(2.3, 0.02, 9)
    above = stats.ttest_ind(y + 0.03, y0, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(y - 0.03, y0, equal_var=False, alternative="less").pvalue
    assert equivalence(welch(y, y0), margin=0.03).p == pytest.approx(max(above, below), rel=1e-9)


def test_shrunken_variance_and_degrees_of_freedom_are_the_contrasts_own():
    d = np.random.default_rng(2).normal(0, 0.02, (4, 5))
    row = moderated(d, m=4).rows[1]
    found = equivalence(row, margin=0.03)
    assert found.p == pytest.approx(stats.t(7).sf((0.03 - abs(row.mean)) / row.se))


def test_without_scatter():
    inside = equivalence(paired([2.5, 2.5], [2.25, 2.25]), margin=0.5)
    assert (inside.p, inside.equivalent) == (0.0, True)
    outside = equivalence(paired([2.5, 2.5], [2.25, 2.25]), margin=0.125)
    assert (outside.p, outside.equivalent) == (1.0, False)
    edge = equivalence(paired([2.5, 2.5], [2.25, 2.25]), margin=0.25)
    assert not edge.equivalent
    with pytest.raises(AssertionError):
        equivalence(paired([2.5, 2.5], [2.25, 2.25]), margin=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("margin", "n", "power"),
    [(1.5, 5, 0.73), (1.5, 8, 0.97), (1.5, 10, 0.99), (1.0, 5, 0.30), (1.0, 8, 0.64), (1.0, 10, 0.79)],
)
def test_chance_to_see_that_there_is_nothing(margin, n, power):
    # Margin in standard deviations of a loss; rho 0.5, so that a difference has a standard deviation of one.
    tables = np.random.default_rng(n).normal(size=(4000, 1, n))
    seen = np.mean([equivalence(moderated(d, m=1).rows[0], margin=margin).equivalent for d in tables])
    assert seen == pytest.approx(power, abs=0.02)


def test_an_effect_at_the_margin_is_called_equivalent_in_one_of_twenty_tables():
    tables = np.random.default_rng(0).normal(1.5, 1, (600, 1, 20))
    wrong = [equivalence(moderated(d, m=1).rows[0], margin=1.5).equivalent for d in tables]
    assert np.mean(wrong) == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / 600))
