"""The statistics of tables against statsmodels, which takes a second to import and so does not make them."""

import math

import numpy as np
import pytest
from each import for_each

from lab.stats.contrast import paired, welch
from lab.stats.equivalence import equivalence
from lab.stats.holm import holm
from lab.stats.power import power_at, smallest_effect
from lab.stats.proportion import proportion

pytestmark = pytest.mark.slow


@for_each(range(20))
def test_holm(seed):
    from statsmodels.stats.multitest import multipletests

    p = np.random.default_rng(seed).uniform(0, 0.2, 20).tolist()
    assert holm(p, m=20) == pytest.approx(tuple(multipletests(p, method="holm")[1]))
    lost = multipletests([*p[:15], *[1.0] * 5], method="holm")[1]
    assert holm([*p[:15], *[None] * 5], m=20)[:15] == pytest.approx(tuple(lost[:15]))


@for_each(range(20))
def test_two_one_sided_tests(seed):
    from statsmodels.stats.weightstats import ttost_ind, ttost_paired

    rng = np.random.default_rng(seed)
    y, y0, more = rng.normal(2.3, 0.02, 6), rng.normal(2.3, 0.02, 6), rng.normal(2.3, 0.04, 9)
    assert equivalence(paired(y, y0), margin=0.03).p == pytest.approx(ttost_paired(y, y0, -0.03, 0.03)[0])
    theirs = ttost_ind(y, more, -0.03, 0.03, usevar="unequal")[0]
    assert equivalence(welch(y, more), margin=0.03).p == pytest.approx(theirs)


@for_each([(k, n) for n in (1, 3, 5, 8) for k in range(n + 1)])
def test_a_share_of_runs(k, n):
    from statsmodels.stats.proportion import proportion_confint

    assert proportion(k, n).interval == pytest.approx(proportion_confint(k, n, alpha=0.05, method="beta"))


@for_each([(n, rho) for n in (3, 5, 8, 16) for rho in (0.0, 0.5, 0.8)])
def test_power_of_a_single_contrast(n, rho):
    from statsmodels.stats.power import TTestPower

    sd, effect = 0.012, 0.012  # its noncentral t ends where powers are 1
    size = effect / (sd * math.sqrt(2 * (1 - rho)))
    theirs = TTestPower().power(effect_size=size, nobs=n, alpha=0.05)
    assert power_at(effect, sd=sd, n=n, m=1, rho=rho) == pytest.approx(theirs, abs=2e-3)
    needed = TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8) * sd * math.sqrt(2 * (1 - rho))
    assert smallest_effect(sd, n=n, m=1, rho=rho) == pytest.approx(needed, rel=5e-3)
