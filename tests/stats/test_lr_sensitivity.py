"""Learning-rate sensitivity against sums written out by hand."""

import math

import numpy as np
import pytest

from lab.stats.lr_sensitivity import difference, lr_curve, sensitivity, usable
from lab.stats.resample import resampled

LRS = [1e-3, 2e-3, 4e-3, 8e-3]


def test_by_hand():
    losses = np.array([[3.2, 3.0, 3.1, math.inf], [3.4, 3.0, 3.3, 9.0]])
    found = lr_curve(LRS, losses, loss_0=8.0)
    # Means 3.3, 3.0, 3.2 and, both capped, 8.0: the second 9.0 is above the loss at init.
    assert found.sensitivity == pytest.approx((0.3 + 0.0 + 0.2 + 5.0) / 4)
    assert (found.best, found.edge, found.first_diverging) == (1, False, 8e-3)
    assert found.diverged == (0, 0, 0, 1)
    assert found.means[3] == math.inf
    # From 3.0 the limit 3.02 lies at 0.02 / 0.3 of an octave below and 0.02 / 0.2 above.
    assert found.octaves == pytest.approx(0.02 / 0.3 + 0.02 / 0.2)
    assert not found.is_open


def test_one_diverged_seed_bars_a_rate_from_being_the_best():
    losses = np.array([[3.2, 1.0], [3.2, math.inf]])
    found = lr_curve(LRS[:2], losses, loss_0=4.0)
    assert found.best == 0


def test_an_open_range():
    octaves, is_open = usable(LRS, np.array([3.0, 3.01, 3.02, 3.04]), 0, 0.02)
    assert is_open
    assert octaves == pytest.approx(2.0)
    octaves, is_open = usable(LRS, np.array([3.5, 3.0, 3.0, math.inf]), 1, 0.02)
    assert octaves == pytest.approx(1 + 0.02 / 0.5)
    assert not is_open


def test_unknown_where_all_diverged_or_a_rate_is_missing():
    found = lr_curve(LRS[:2], np.full((2, 2), math.inf), loss_0=8.0)
    assert (found.best, found.octaves) == (None, None)
    assert math.isnan(sensitivity(np.array([[3.0, math.nan]])))
    assert lr_curve(LRS[:2], np.array([[3.0, math.inf]]), loss_0=None).sensitivity is None


def test_seeds_are_resampled_jointly():
    noise = np.random.default_rng(1).normal(0, 1, (8, 1))
    losses = np.array([[3.3, 3.0, 3.2, 3.6]]) + noise  # a seed's luck is the same at all rates
    found = lr_curve(LRS, losses, loss_0=100.0)
    assert found.interval == pytest.approx((found.sensitivity, found.sensitivity))


def test_differences_are_resampled_together():
    base = np.random.default_rng(2).normal(3, 0.1, (5, 4))
    mean, interval = difference(base + np.array([0, 0, 0, 1]), 9.0, base, 9.0)
    assert mean == pytest.approx(0.25, abs=0.1)
    assert interval[0] <= mean <= interval[1]
    assert difference(base, 9.0, base, 9.0) == (0.0, (0.0, 0.0))


def test_the_bootstrap_of_a_mean_is_as_wide_as_theory_says():
    x = np.random.default_rng(3).normal(0, 1, 200)
    low, high = resampled(200, lambda draw: float(x[draw].mean()))
    assert high - low == pytest.approx(2 * 1.96 * x.std() / math.sqrt(200), rel=0.05)
    assert resampled(1, lambda draw: 0.0) is None
