import itertools

import pytest
from each import for_each

from lab.stats.holm import holm


def test_by_hand():
    # Sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, and never falling.
    assert holm([0.01, 0.04, 0.03, 0.005], m=4) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_ties_by_hand():
    # Sorted .0004 .001 .02 .02 .3 .9, times 6 5 4 3 2 1: .0024 .005 .08 .06 .6 .9.
    p = [0.001, 0.02, 0.02, 0.3, 0.9, 0.0004]
    assert holm(p, m=6) == pytest.approx((0.005, 0.08, 0.08, 0.6, 0.9, 0.0024))


def test_lost_contrasts_stay_in_the_family():
    assert holm([0.01, None, 0.02], m=3) == pytest.approx((0.03, None, 0.04))
    assert holm([0.01, 0.02], m=3) == pytest.approx((0.03, 0.04))
    as_one = holm([0.01, 1.0, 0.02], m=3)
    assert (as_one[0], as_one[2]) == pytest.approx((0.03, 0.04))


def test_one_and_none():
    assert holm([0.03], m=1) == (0.03,)
    assert holm([], m=5) == ()
    assert holm([None, None], m=2) == (None, None)
    assert holm([0.7, 0.6], m=2) == (1.0, 1.0)


@pytest.mark.parametrize(("p", "m"), [([0.1, 0.2], 1), ([1.2], 1), ([-0.1], 1), ([float("nan")], 1)])
def test_our_own_mistakes(p, m):
    with pytest.raises(AssertionError):
        holm(p, m=m)


P = [0.0, 0.004, 0.0125, 0.02, 0.05, 0.3]


@for_each(itertools.product(P, repeat=3))
def test_rejects_what_the_step_down_rule_rejects(*p):
    # Holm 1979: walk up the sorted p and stop at the first above alpha / (m - rank).
    m, rejected = 4, set()
    for rank, place in enumerate(sorted(range(3), key=p.__getitem__)):
        if p[place] > 0.05 / (m - rank):
            break
        rejected.add(place)
    assert {place for place, value in enumerate(holm(p, m=m)) if value <= 0.05 * (1 + 1e-12)} == rejected
