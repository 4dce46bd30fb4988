import itertools
import math
import time

import numpy as np
import pytest
from each import for_each
from scipy import stats
from scipy.special import nctdtrinc

from lab.stats import power
from lab.stats.power import planning_table, power_at, seeds_needed, smallest_effect

RHOS = (0.0, 0.5, 0.8)

# protocol.md 3.2, in units of sd: by m and n, for each rho.
TABLE = {
    (1, 3): (4.6, 3.3, 2.1),
    (1, 5): (2.4, 1.7, 1.1),
    (1, 8): (1.6, 1.2, 0.7),
    (1, 16): (1.1, 0.7, 0.5),
    (8, 3): (4.3, 3.0, 1.9),
    (8, 5): (3.0, 2.1, 1.3),
    (8, 8): (2.2, 1.5, 1.0),
    (8, 16): (1.4, 1.0, 0.6),
    (20, 3): (5.1, 3.6, 2.3),
    (20, 5): (3.4, 2.4, 1.5),
    (20, 8): (2.5, 1.7, 1.1),
    (20, 16): (1.6, 1.1, 0.7),
}


def noncentral(m, n, rho):
    """Smallest effect, were the shrunken variance a chi^2: the other tail is nothing at a power of 0.8."""
    df = min(4, m - 1) + n - 1
    return nctdtrinc(df, 0.2, stats.t(df).isf(0.025 / m)) * math.sqrt(2 * (1 - rho) / n)


@for_each([(m, n, i) for m, n in TABLE for i in range(3)])
def test_the_planning_table_is_the_noncentral_t(m, n, i):
    assert noncentral(m, n, RHOS[i]) == pytest.approx(TABLE[m, n][i], abs=0.06)


@for_each([(m, n, i) for m, n in TABLE for i in range(3)])
def test_the_planning_table(m, n, i):
    ours = planning_table(m, seeds=[n])[n][RHOS[i]]
    assert ours == pytest.approx(TABLE[m, n][i], abs=0.0701 if n > 3 else 0.25)


@for_each([(n, rho) for n in (2, 3, 5, 8, 16, 100) for rho in RHOS])
def test_one_variant_is_the_noncentral_t(n, rho):
    assert smallest_effect(1.0, n=n, m=1, rho=rho) == pytest.approx(noncentral(1, n, rho), rel=3e-5)


@for_each([(3, 1.08), (5, 1.025), (8, 1.012), (16, 1.006)])
def test_more_variants_need_a_little_more_than_the_noncentral_t(n, most):
    for m in (2, 3, 5, 8, 20):
        assert 0.996 < smallest_effect(1.0, n=n, m=m, rho=0.5) / noncentral(m, n, 0.5) < most


@pytest.mark.parametrize(
    ("effect", "sd", "seeds"),
    [
        (20, 12, (13, 8, 4)),
        (20, 20, (29, 16, 8)),
        (20, 5, (4, 3, 3)),
        (10, 12, (41, 22, 11)),
        (5, 12, (151, 78, 33)),
    ],
)
def test_seeds_for_eight_variants(effect, sd, seeds):
    # protocol.md 3.2; its 2 for sd 5 and rho 0.8 is 3 here, the fewest that get a verdict.
    assert tuple(seeds_needed(effect, sd=sd, m=8, rho=rho) for rho in RHOS) == seeds


@for_each([(1, 5), (8, 5), (8, 3)])
def test_seeds_needed_are_the_fewest(m, n):
    effect = smallest_effect(0.01, n=n + 1, m=m, rho=0.3)
    assert seeds_needed(effect * 1.0001, sd=0.01, m=m, rho=0.3) == n + 1
    assert seeds_needed(effect * 0.9999, sd=0.01, m=m, rho=0.3) == n + 2
    assert seeds_needed(-effect * 1.0001, sd=0.01, m=m, rho=0.3) == n + 1


def test_no_number_of_seeds_is_enough():
    assert seeds_needed(0.0, sd=0.01, m=8, rho=0.5) is None
    assert seeds_needed(1e-5, sd=0.01, m=8, rho=0.5) is None


def test_units_and_edges():
    at = {"n": 5, "m": 8, "rho": 0.5}
    assert smallest_effect(0.02, **at) == pytest.approx(0.02 * smallest_effect(1.0, **at))
    assert smallest_effect(0.0, **at) == 0.0
    assert smallest_effect(1.0, n=1, m=8, rho=0.5) is None
    assert smallest_effect(1.0, n=0, m=1, rho=0.5) is None
    mde = smallest_effect(0.02, power=0.9, alpha=0.1, **at)
    assert power_at(mde, sd=0.02, alpha=0.1, **at) == pytest.approx(0.9, abs=1e-5)
    assert power_at(-mde, sd=0.02, alpha=0.1, **at) == pytest.approx(0.9, abs=1e-5)
    for wrong in (0.0, 1.0):
        with pytest.raises(AssertionError):
            smallest_effect(1.0, power=wrong, **at)
    with pytest.raises(AssertionError):
        power_at(0.1, sd=0.0, **at)


def test_without_an_effect_power_is_the_rate_of_false_positives():
    assert power_at(0.0, sd=1.0, n=5, m=1, rho=0.5) == pytest.approx(0.05, abs=3e-4)


def test_more_seeds_closer_pairs_and_fewer_contrasts_see_more():
    def mde(n=5, m=8, rho=0.5):
        return smallest_effect(1.0, n=n, m=m, rho=rho)

    assert mde(n=6) < mde() < mde(n=4)
    assert mde(rho=0.6) < mde() < mde(rho=0.4)
    assert mde(m=6) < mde() < mde(m=12)


@pytest.mark.parametrize(("n", "m"), [(3, 2), (5, 8), (8, 20), (16, 40)])
def test_a_smallest_effect_takes_less_than_ten_milliseconds(n, m):
    def spent():
        power._scales.cache_clear()
        began = time.process_time()
        smallest_effect(1.0, n=n, m=m, rho=0.5)
        return time.process_time() - began

    assert min(spent() for _ in range(5)) < 0.01


def simulated_power(effect, *, n, m, rho, tables, seed):
    """Share of the first variant's tests below alpha / m, from losses, by the formulas of protocol.md 3.3."""
    rng = np.random.default_rng(seed)
    seen = 0
    for _ in range(tables // 1000):
        common = math.sqrt(rho) * rng.normal(size=(1000, 1, n))
        y = common + math.sqrt(1 - rho) * rng.normal(size=(1000, m + 1, n))
        d = y[:, 1:] - y[:, :1]
        d[:, 0] += effect
        d0, variance = min(4, m - 1), d.var(axis=-1, ddof=1)
        s0 = np.median(variance, axis=1) / (stats.chi2.median(n - 1) / (n - 1))
        se = np.sqrt((d0 * s0 + (n - 1) * variance[:, 0]) / (d0 + n - 1) / n)
        p = 2 * stats.t.sf(abs(d[:, 0].mean(axis=-1) / se), d0 + n - 1)
        seen += int((p < 0.05 / m).sum())
    return seen / tables


def check_power(n, m, rho, tables, within):
    effect = smallest_effect(1.0, n=n, m=m, rho=rho)
    found = simulated_power(effect, n=n, m=m, rho=rho, tables=tables, seed=n * m)
    assert found == pytest.approx(0.8, abs=within)
    assert power_at(0.5 * effect, sd=1.0, n=n, m=m, rho=rho) == pytest.approx(
        simulated_power(0.5 * effect, n=n, m=m, rho=rho, tables=tables, seed=n * m + 1), abs=within
    )


@for_each([(3, 8, 0.5), (5, 1, 0.0)])
def test_power_is_what_it_is_called(n, m, rho):
    check_power(n, m, rho, tables=4000, within=0.025)


@pytest.mark.slow
@for_each(itertools.product((3, 4, 5, 8, 16), (1, 2, 3, 5, 8, 20), (0.3,)))
def test_power_is_what_it_is_called_everywhere(n, m, rho):
    check_power(n, m, rho, tables=20_000, within=0.012)
