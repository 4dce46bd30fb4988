"""What the tests do when there is nothing to see, and when there is, simulated."""

import itertools
import math

import numpy as np
import pytest
from each import for_each
from scipy import stats

from lab.stats.contrast import differences
from lab.stats.holm import holm
from lab.stats.moderated import moderated

ALPHA = 0.05


def losses(tables, m, n, *, rho, seed, sd=1.0):
    """Losses of the variants and of their baseline in so many studies."""
    rng = np.random.default_rng(seed)
    common = math.sqrt(rho) * rng.normal(size=(tables, 1, n))
    y = sd * (common + math.sqrt(1 - rho) * rng.normal(size=(tables, m + 1, n)))
    return y[:, 1:], y[:, 0]


def smallest(tables_of_p):
    """Per table, its smallest p raw and its smallest after Holm."""
    return np.array([(min(p), min(holm(p, m=len(p)))) for p in tables_of_p])


def moderated_p(variants, baseline):
    for y, y0 in zip(variants, baseline, strict=True):
        yield [row.p for row in moderated(differences(list(y), y0), m=len(y)).rows]


def standard_error(rate, tables):
    return math.sqrt(rate * (1 - rate) / tables)


def test_a_table_of_nothing_shows_few_stars():
    found = smallest(moderated_p(*losses(200, 8, 5, rho=0.5, seed=0)))
    raw, corrected = (found < ALPHA).mean(axis=0)
    assert raw == pytest.approx(0.22, abs=4 * standard_error(0.22, 200))
    assert corrected <= ALPHA


@pytest.mark.slow
@pytest.mark.parametrize(("m", "raw", "corrected"), [(8, 0.22, 0.025), (12, 0.27, 0.019), (20, 0.35, 0.014)])
def test_false_stars_of_the_moderated_test(m, raw, corrected):
    tables = 4000
    found = (smallest(moderated_p(*losses(tables, m, 5, rho=0.5, seed=m))) < ALPHA).mean(axis=0)
    assert found[0] == pytest.approx(raw, abs=4 * standard_error(raw, tables) + 0.005)
    assert found[1] == pytest.approx(corrected, abs=4 * standard_error(corrected, tables) + 0.0005)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "paired", "welch"),
    [(8, (0.28, 0.047), (0.07, 0.006)), (12, (0.36, 0.047), (0.09, 0.004)), (20, (0.49, 0.047), (0.14, 0.004))],
)
def test_false_stars_of_the_plain_tests(m, paired, welch):
    tables = 4000
    y, y0 = losses(tables, m, 5, rho=0.5, seed=m)
    y0 = np.broadcast_to(y0[:, None], y.shape)
    for rates, p in (
        (paired, stats.ttest_rel(y, y0, axis=-1).pvalue),
        (welch, stats.ttest_ind(y, y0, axis=-1, equal_var=False).pvalue),
    ):
        found = (smallest(p.tolist()) < ALPHA).mean(axis=0)
        for rate, expected in zip(found, rates, strict=True):
            assert rate == pytest.approx(expected, abs=4 * standard_error(expected, tables) + 0.005)


@pytest.mark.slow
@for_each(itertools.product((1, 3, 8, 20), (3, 5, 8)))
def test_no_table_of_nothing_shows_more_stars_than_alpha(m, n):
    tables = 2500
    found = smallest(moderated_p(*losses(tables, m, n, rho=0.5, seed=100 * m + n)))[:, 1] < ALPHA
    assert found.mean() <= ALPHA + 3 * standard_error(ALPHA, tables)


@pytest.mark.slow
@for_each([(3, 3), (3, 5), (8, 3), (8, 5)])
def test_unequal_noise(m, n):
    # Standard deviations log-normal with a spread of 0.5, and the 0.06 that protocol.md 3.4 found at most.
    tables = 2000
    scale = np.random.default_rng(m).lognormal(0, 0.5, (tables, m + 1, 1))
    y, y0 = losses(tables, m, n, rho=0.0, seed=10 * m + n)
    found = smallest(moderated_p(scale[:, 1:] * y, scale[:, 0] * y0))[:, 1] < ALPHA
    assert found.mean() <= 0.065 + 3 * standard_error(0.065, tables)


@pytest.mark.slow
def test_family_intervals_hold_all_at_once():
    y, y0 = losses(3000, 8, 5, rho=0.5, seed=1)
    held = 0
    for variants, baseline in zip(y, y0, strict=True):
        rows = moderated(differences(list(variants), baseline), m=8).rows
        held += all(row.family_interval[0] <= 0 <= row.family_interval[1] for row in rows)
    assert held / 3000 == pytest.approx(0.97, abs=0.015)


# Power to see 20 mnat in 2 of 8 variants after Holm: by sd and n, for rho 0, .5 and .8.
POWER = {
    (0.008, 3): (0.28, 0.59, 0.94),
    (0.008, 5): (0.61, 0.93, 1.00),
    (0.008, 8): (0.92, 1.00, 1.00),
    (0.012, 3): (0.10, 0.24, 0.64),
    (0.012, 5): (0.25, 0.55, 0.96),
    (0.012, 8): (0.51, 0.88, 1.00),
    (0.020, 3): (0.03, 0.06, 0.21),
    (0.020, 5): (0.06, 0.15, 0.50),
    (0.020, 8): (0.15, 0.35, 0.84),
}


@pytest.mark.slow
@for_each([(*key, i) for key in POWER for i in range(3)])
def test_power_after_holm(sd, n, i):
    y, y0 = losses(2000, 8, n, rho=(0.0, 0.5, 0.8)[i], seed=n, sd=sd)
    y[:, :2] -= 0.02
    seen = [[p < ALPHA for p in holm(p, m=8)[:2]] for p in moderated_p(y, y0)]
    assert np.mean(seen) == pytest.approx(POWER[sd, n][i], abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 5, 8])
@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_false_stars_of_a_two_by_two_study(n, rho):
    """Two changes and their interaction, where none does anything: the pair lends its variance alone."""
    tables, wrong = 4000, 0
    for y, y0 in zip(*losses(tables, 3, n, rho=rho, seed=n), strict=True):
        beyond = (y[2] - y[0] - y[1] + y0) / math.sqrt(2)
        found = moderated(differences(list(y), y0), m=3, beside=[beyond])
        p = [found.rows[0].p, found.rows[1].p, found.beside[0].p]
        wrong += min(holm(p, m=3)) < ALPHA
    assert wrong / tables <= ALPHA + 3 * standard_error(ALPHA, tables)
