import math

import numpy as np
import pytest
from each import for_each
from scipy import stats

from lab.stats.moderated import moderated

D = [
    [-0.02, 0.01, -0.03, -0.03, -0.04],
    [0.00, 0.02, -0.01, 0.01, 0.02],
    [-0.09, 0.05, -0.12, 0.03, -0.06],
]


def slow_rows(d, m):
    """protocol.md 3.3, one number at a time, with scipy's distributions."""
    rows = [[x for x in row if x is not None and math.isfinite(x)] for row in d]
    tested = [row for row in rows if len(row) > 1]

    def variance(row):
        return sum((x - sum(row) / len(row)) ** 2 for x in row) / (len(row) - 1)

    scaled = sorted(variance(r) * (len(r) - 1) / stats.chi2.median(len(r) - 1) for r in tested)
    half = len(scaled) // 2
    s0_squared = scaled[half] if len(scaled) % 2 else (scaled[half - 1] + scaled[half]) / 2
    d0 = min(4, len(tested) - 1)
    for row in rows:
        if len(row) < 2:
            yield None
            continue
        df = d0 + len(row) - 1
        se = math.sqrt((d0 * s0_squared + (len(row) - 1) * variance(row)) / df / len(row))
        mean = sum(row) / len(row)
        t = stats.t(df)
        yield (
            mean / se,
            2 * t.sf(abs(mean / se)),
            mean - se * t.isf(0.025),
            mean + se * t.isf(0.025),
            mean - se * t.isf(0.025 / m),
            mean + se * t.isf(0.025 / m),
        )


def random_differences(seed):
    """Rows of a random number of variants and seeds, some of them lost."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 12)), int(rng.integers(2, 9))
    d = rng.normal(-0.01, 0.02, (k, n)) * rng.lognormal(0, 0.5, (k, 1))
    d[rng.random((k, n)) < rng.choice([0, 0.3])] = rng.choice([np.nan, np.inf, -np.inf])
    return [[None if math.isnan(x) else x for x in row] for row in d.tolist()]


@for_each(range(8))
def test_equals_the_protocol_one_number_at_a_time(seed):
    check_against_slow_rows(seed)


@pytest.mark.slow
@for_each(range(8, 40))
def test_equals_the_protocol_one_number_at_a_time_in_more_tables(seed):
    check_against_slow_rows(seed)


def check_against_slow_rows(seed):
    d = random_differences(seed)
    m = len(d) + seed % 3
    for ours, theirs in zip(moderated(d, m=m).rows, slow_rows(d, m), strict=True):
        found = ours and (ours.t, ours.p, *ours.interval, *ours.family_interval)
        assert found == (theirs and pytest.approx(theirs, rel=1e-9))


def test_the_random_rows_hold_what_they_should():
    found = [moderated(d := random_differences(seed), m=len(d)) for seed in range(40)]
    assert sum(row is None for f in found for row in f.rows) > 5
    assert sum(len({row.n for row in f.rows if row}) > 1 for f in found) > 5
    assert {f.prior_df for f in found} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("n", [2, 3, 5, 16])
def test_one_variant_is_the_plain_paired_t(n):
    rng = np.random.default_rng(n)
    y, y0 = rng.normal(2.3, 0.02, (2, n))
    found, theirs = moderated([y - y0], m=1), stats.ttest_rel(y, y0)
    (row,) = found.rows
    assert (row.n, row.df, found.prior_df) == (n, n - 1, 0)
    assert (row.t, row.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-12)
    assert row.interval == pytest.approx(tuple(theirs.confidence_interval()), rel=1e-12)


def test_by_hand():
    # Sums of squares .00148, .00068 and .02228 over 4; the median of chi^2 with 4 degrees of freedom is 3.356694.
    found = moderated(D, m=3)
    s0_squared = 0.00148 / 3.356694
    assert found.prior_sd == pytest.approx(math.sqrt(s0_squared), rel=1e-6)
    assert [row.df for row in found.rows] == [6, 6, 6]
    assert [row.sd**2 for row in found.rows] == pytest.approx([0.00037, 0.00017, 0.00557])
    se = [math.sqrt((2 * s0_squared + squares) / 6 / 5) for squares in (0.00148, 0.00068, 0.02228)]
    assert [row.se for row in found.rows] == pytest.approx(se, rel=1e-6)
    assert found.rows[0].t == pytest.approx(-0.022 / se[0], rel=1e-6)


def test_a_row_that_came_out_quiet_by_chance_is_no_star():
    quiet = [0.0050, 0.0051, 0.0049]
    rows = [quiet, [0.02, -0.03, 0.01], [-0.02, 0.04, -0.01], [0.03, -0.01, -0.04]]
    assert moderated([quiet], m=1).rows[0].p < 0.001
    assert moderated(rows, m=4).rows[0].p > 0.5


def test_the_family_is_what_was_declared():
    few, many = moderated(D, m=3), moderated(D, m=20)
    for row, wide in zip(few.rows, many.rows, strict=True):
        assert (row.t, row.p, row.interval) == (wide.t, wide.p, wide.interval)
        assert wide.family_interval[0] < row.family_interval[0] < row.interval[0]
        assert row.interval[1] < row.family_interval[1] < wide.family_interval[1]
    assert len(moderated(D, m=2).rows) == len(D)  # one that is not declared lends its variance


def test_a_row_without_pairs_is_none_and_lends_nothing():
    lost = moderated([D[0], [None, 0.1, None, None, None], D[1], [math.inf] * 5, D[2]], m=5)
    kept = moderated(D, m=5)
    assert lost.rows == (kept.rows[0], None, kept.rows[1], None, kept.rows[2])
    assert (lost.prior_sd, lost.prior_df) == (kept.prior_sd, kept.prior_df) == (kept.prior_sd, 2)


def test_no_row_at_all():
    assert moderated([], m=4).rows == ()
    none = moderated([[None, 0.1], [0.2, math.nan]], m=2)
    assert (none.rows, none.prior_sd, none.prior_df) == ((None, None), None, 0)


def test_rows_without_scatter():
    (row,) = moderated([[0.25, 0.25, 0.25]], m=1).rows
    assert (row.t, row.p, row.interval) == (math.inf, 0.0, (0.25, 0.25))
    (row,) = moderated([[0.0, 0.0]], m=1).rows
    assert (row.t, row.p) == (0.0, 1.0)
    inert = moderated([*D, [0.0] * 5], m=4).rows[3]
    assert (inert.t, inert.p) == (0.0, 1.0)
    assert inert.interval[1] > 0


def test_rows_beside_have_no_say():
    alone, both = moderated(D, m=4), moderated(D, m=4, beside=[[9.0, -9.0, 5.0, 0.0, 1.0], [None] * 5])
    assert both.rows == alone.rows
    assert (both.prior_sd, both.prior_df) == (alone.prior_sd, alone.prior_df)
    wild, none = both.beside
    assert none is None
    assert wild.df == alone.prior_df + 4
    squares = np.var([9.0, -9.0, 5.0, 0.0, 1.0], ddof=1) * 4
    assert wild.se**2 * 5 * wild.df == pytest.approx(squares + alone.prior_df * alone.prior_sd**2)
