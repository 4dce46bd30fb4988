import math

import numpy as np
import pytest
from each import for_each
from scipy import integrate, stats

from lab.stats.noise import c4, noise_floor


def test_the_published_divisors():
    assert [round(c4(n), 3) for n in (3, 5, 8)] == [0.886, 0.940, 0.965]
    assert c4(2) == pytest.approx(math.sqrt(2 / math.pi))
    assert c4(10_000) == pytest.approx(1, abs=3e-5)


@for_each([2, 3, 7, 30])
def test_the_divisor_is_the_mean_of_the_standard_deviation(n):
    chi = stats.chi(n - 1)
    mean, _ = integrate.quad(lambda x: x * chi.pdf(x), 0, 20)
    assert c4(n) == pytest.approx(mean / math.sqrt(n - 1), rel=1e-7)


@pytest.mark.parametrize(("n", "low", "high"), [(3, 0.52, 6.3), (5, 0.60, 2.9)])
def test_how_little_few_seeds_tell(n, low, high):
    y = np.arange(n) / np.std(np.arange(n), ddof=1)
    floor = noise_floor(y)
    assert floor.sd == pytest.approx(1)
    assert floor.interval == pytest.approx((low, high), rel=0.01)


def test_by_scipy():
    y = [2.31, 2.35, 2.28, 2.33, 2.30]
    floor = noise_floor(y, alpha=0.1)
    squares = 4 * np.var(y, ddof=1)
    assert (floor.n, floor.mean, floor.sd) == (5, pytest.approx(2.314), pytest.approx(math.sqrt(squares / 4)))
    assert floor.unbiased_sd == pytest.approx(floor.sd / 0.9399856, rel=1e-7)
    assert floor.interval == pytest.approx(np.sqrt(squares / stats.chi2(4).ppf([0.95, 0.05])))


def test_lost_seeds_and_too_few():
    assert noise_floor([2.31, None, 2.35, math.inf, 2.28, math.nan]) == noise_floor([2.31, 2.35, 2.28])
    assert noise_floor([2.3, None, math.inf]) is None
    assert noise_floor([]) is None
    same = noise_floor([2.5, 2.5])
    assert (same.sd, same.unbiased_sd, same.interval) == (0.0, 0.0, (0.0, 0.0))
    with pytest.raises(AssertionError):
        c4(1)
