"""Tests of chosen pairs of arms, by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from lab.report.effects import Stats
from lab.report.pair_tests import pair_tests
from report.test_effects import BASE, arm, hashes, plus

A = [-0.050, -0.052, -0.048, -0.051, -0.049]
B = [-0.021, -0.019, -0.020, -0.022, -0.018]


def judged(pairs, hashed=None, **options):
    """Two arms beside a baseline; their hashes are its own unless others are given."""
    more = {} if hashed is None else {"hashes": hashed}
    arms = [arm("base", BASE), arm("a", plus(A), **more), arm("b", plus(B), **more)]
    return pair_tests(arms, pairs, metric="final_loss", stats=Stats(), table=None, **options)


def test_arms_that_are_no_pairs_of_the_baseline_are_judged_by_their_own_scatter():
    """As those that go on from one trained model: the baseline's seeds say nothing of what they share."""
    (found,) = judged([("a", "b")], hashes("other", w="same"))
    theirs = stats.ttest_rel(plus(A), plus(B))
    own_sd = np.std(np.subtract(A, B), ddof=1) / math.sqrt(2)
    assert (found.contrast.p, found.n) == (pytest.approx(theirs.pvalue), 5)
    assert (found.scatter.sd, found.scatter.rho) == (pytest.approx(own_sd), 0.0)
    assert found.mde < 0.01 < abs(found.contrast.mean)
    assert found.scatter.seeds(2 * found.mde) < 5 <= found.scatter.seeds(0.9 * found.mde)


def test_arms_that_are_pairs_of_the_baseline_are_judged_by_its_floor():
    (found,) = judged([("a", "b")])
    assert found.scatter.sd == pytest.approx(np.std(BASE, ddof=1), rel=0.1)
    assert found.scatter.rho > 0.9


def test_the_other_order_is_the_same_test_turned_round():
    there, back = judged([("a", "b"), ("b", "a")])
    assert back.contrast.mean == -there.contrast.mean == pytest.approx(np.mean(B) - np.mean(A))
    assert back.contrast.interval == tuple(-x for x in reversed(there.contrast.interval))
    assert (back.p, back.mde) == (there.p, there.mde)


def test_each_pair_counts_once_in_its_family():
    (alone,) = judged([("a", "b")])
    (beside,) = judged([("a", "b")], family=[("base", "a"), ("b", "a")])
    assert alone.p == alone.contrast.p
    assert (alone.scatter.m, beside.scatter.m) == (1, 2)
    assert beside.contrast.family_interval[0] < alone.contrast.family_interval[0]
