import math
from dataclasses import astuple

import numpy as np
import pytest
from each import for_each
from scipy import stats

from lab.stats.contrast import contrast, differences, paired, pairing_correlation, welch, welch_sum

BASELINE = [2.31, 2.35, 2.28, 2.33, 2.30]
VARIANT = [2.29, 2.36, 2.25, 2.30, 2.26]


def test_paired_is_scipys():
    ours, theirs = paired(VARIANT, BASELINE, m=4), stats.ttest_rel(VARIANT, BASELINE)
    assert (ours.n, ours.n_baseline, ours.df) == (5, 5, 4)
    assert (ours.t, ours.p) == (theirs.statistic, theirs.pvalue)
    assert ours.interval == tuple(theirs.confidence_interval(0.95))
    assert ours.family_interval == tuple(theirs.confidence_interval(1 - 0.05 / 4))


def test_paired_by_hand():
    d = [-0.02, 0.01, -0.03, -0.03, -0.04]  # mean -0.022, squares about it 0.00148
    row = paired(VARIANT, BASELINE)
    assert row.mean == pytest.approx(-0.022)
    assert row.sd == pytest.approx(math.sqrt(0.00148 / 4))
    assert row.se == pytest.approx(math.sqrt(0.00148 / 20))
    assert row.t == pytest.approx(np.mean(d) / row.se)
    assert row.interval == pytest.approx((-0.022 - 2.776445 * row.se, -0.022 + 2.776445 * row.se), rel=1e-6)
    assert row.family_interval == row.interval


def test_welch_is_scipys():
    ours = welch(VARIANT, BASELINE[:3], m=2)
    theirs = stats.ttest_ind(VARIANT, BASELINE[:3], equal_var=False)
    assert (ours.n, ours.n_baseline, ours.sd) == (5, 3, None)
    assert (ours.t, ours.p, ours.df) == (theirs.statistic, theirs.pvalue, theirs.df)
    assert ours.interval == tuple(theirs.confidence_interval(0.95))
    assert ours.family_interval == tuple(theirs.confidence_interval(0.975))
    assert ours.mean / ours.se == pytest.approx(ours.t)


def test_the_statistics_of_a_mean_are_those_of_scipy():
    own = contrast(-0.3, 0.1, 7.5, n=4, n_baseline=5, sd=None, m=3)
    t = stats.t(7.5)
    assert own.p == pytest.approx(2 * t.sf(3), rel=1e-12)
    assert own.interval == pytest.approx(np.array(t.interval(0.95)) * 0.1 - 0.3)
    assert own.family_interval == pytest.approx(np.array(t.interval(1 - 0.05 / 3)) * 0.1 - 0.3)


@for_each([None, math.nan, math.inf, -math.inf])
def test_seeds_without_a_finite_loss_are_left_out(bad):
    lost = [VARIANT[0], bad, *VARIANT[2:]]
    short, base = [VARIANT[0], *VARIANT[2:]], [BASELINE[0], *BASELINE[2:]]
    assert paired(lost, BASELINE) == paired(short, base)
    assert paired(VARIANT, [BASELINE[0], bad, *BASELINE[2:]]) == paired(short, base)
    assert welch(lost, BASELINE) == welch(short, BASELINE)
    d = differences([lost, VARIANT], BASELINE)
    assert np.isnan(d[0, 1])
    assert np.isfinite(d).sum() == 9
    assert d[1] == pytest.approx(np.subtract(VARIANT, BASELINE))
    assert np.isnan(differences([VARIANT], [bad] * 5)).all()


@pytest.mark.parametrize("test", [paired, welch])
def test_fewer_than_two_seeds_are_no_contrast(test):
    assert test([2.0, None], [2.1, 2.2]) is None
    assert test([2.0], [2.1]) is None
    assert test([], []) is None
    assert test([2.0, 2.3], [2.1, 2.2]) is not None


def test_pairs_that_do_not_overlap_are_none():
    assert paired([2.0, None, 2.1, None], [None, 2.0, None, 2.1]) is None


@pytest.mark.parametrize("test", [paired, welch])
def test_no_scatter_at_all(test):
    same = test([2.5, 2.5, 2.5], [2.5, 2.5, 2.5])
    assert (same.t, same.p, same.interval, same.df) == (0.0, 1.0, (0.0, 0.0), 2)
    lower = test([2.0, 2.0, 2.0], [2.5, 2.5, 2.5])
    assert (lower.t, lower.p, lower.family_interval) == (-math.inf, 0.0, (-0.5, -0.5))


def test_scatter_of_rounding_alone_does_not_warn():
    shifted = paired([loss + 0.1 for loss in BASELINE], BASELINE)
    assert shifted.p < 1e-30
    assert all(math.isfinite(value) for value in astuple(shifted)[:4])


def test_correlation_of_two_rows():
    variants = [VARIANT, [2.20, 2.29, 2.24, 2.24, 2.21]]
    d = np.subtract(variants, BASELINE)
    rho = 1 - d.var(axis=1).sum() / (np.var(variants, axis=1).sum() + 2 * np.var(BASELINE))
    assert pairing_correlation(variants, BASELINE) == pytest.approx(rho)
    # With equal variances it is the correlation itself.
    turned = [BASELINE[3], BASELINE[0], BASELINE[4], BASELINE[1], BASELINE[2]]
    assert pairing_correlation([turned], BASELINE) == pytest.approx(np.corrcoef(turned, BASELINE)[0, 1])


def test_correlation_uses_the_pairs_there_are():
    lost = [2.29, None, 2.25, 2.30, math.inf]
    kept = [0, 2, 3]
    alone = pairing_correlation([np.take(VARIANT, kept)], np.take(BASELINE, kept))
    assert pairing_correlation([lost, [None, 2.1, None, None, None]], BASELINE) == pytest.approx(alone)
    assert pairing_correlation([[None] * 5], BASELINE) is None
    assert pairing_correlation([], BASELINE) is None
    assert pairing_correlation([[2.0] * 5], [2.1] * 5) is None


def test_one_row_less_another_is_welch():
    ours, theirs = welch_sum([VARIANT], [BASELINE[:3]], m=3), welch(VARIANT, BASELINE[:3], m=3)
    assert [x for x in astuple(ours) if x is not None] == [
        pytest.approx(x) for x in astuple(theirs) if x is not None
    ]
    assert welch_sum([VARIANT], [[2.3, None, math.inf]]) is None


def test_a_sum_of_rows_by_hand():
    rows = [[1.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 2.0], [5.0, 5.0]]
    # Means 2, 4, 1, 5; variances 2, 4, 1, 0, over n 1, 4/3, 1/3, 0, together 8/3.
    row = welch_sum(rows[:2], rows[2:])
    assert (row.mean, row.n, row.n_baseline) == (0.0, 2, 2)
    assert row.se == pytest.approx(math.sqrt(8 / 3))
    assert row.df == pytest.approx((8 / 3) ** 2 / (1 / 1 + (4 / 3) ** 2 / 2 + (1 / 3) ** 2 / 2))
    assert (row.t, row.p) == (0.0, 1.0)


def test_a_sum_without_scatter():
    row = welch_sum([[1.5, 1.5], [2.0, 2.0]], [[1.0, 1.0], [1.0, 1.0, 1.0]])
    assert (row.mean, row.se, row.t, row.p, row.df) == (1.5, 0.0, math.inf, 0.0, 1)


def test_larger_values():
    one, two = paired(VARIANT, BASELINE, m=3), paired(2 * np.array(VARIANT), 2 * np.array(BASELINE), m=3)
    twice = one.times(2.0)
    for ours, theirs in zip(astuple(twice), astuple(two), strict=True):
        assert ours == pytest.approx(theirs)
