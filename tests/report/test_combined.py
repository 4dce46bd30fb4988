"""Contrasts that are no variant less the baseline, by hand."""

import csv
import io
import json
import math

import numpy as np
import pytest
from scipy import stats

from lab.report.combined import Combination
from lab.report.comparison import compare
from lab.report.effects import UNDECLARED, effects
from lab.report.formats import FORMATS
from lab.report.main_table import table
from lab.report.panels import text
from lab.stats.power import smallest_effect
from report.test_effects import BASE, arm, hashes, plus

BOTH = Combination(name="a+b - a - b + base", plus=("a+b", "base"), minus=("a", "b"))
A_B = Combination(name="a - b", plus=("a",), minus=("b",))

A = [-0.050, -0.052, -0.048, -0.051, -0.049]
B = [-0.021, -0.019, -0.020, -0.022, -0.018]
NOTHING = [0.001, -0.001, 0.002, -0.002, 0.0]
MUCH = [0.030, 0.034, 0.026, 0.031, 0.029]


def two_by_two(beyond, combinations=(BOTH,), **options):
    """A two by two study in which both changes together do something beyond what each does alone."""
    arms = [arm("a", plus(A)), arm("b", plus(B))]
    arms.append(arm("a+b", [y + a + b + d for y, a, b, d in zip(BASE, A, B, beyond, strict=True)]))
    return effects(arms, arm("base", BASE), declared={"a", "b"}, combinations=combinations, **options)


def test_an_interaction_borrows_the_variance_of_the_variants():
    found = two_by_two(MUCH)
    (one,) = found.combined
    assert list(one.differences.values()) == pytest.approx(MUCH)
    # Of three rows with four degrees of freedom: d_0 = 2, and the interaction is as wide as two differences.
    rows = [A, B, np.add(A, B) + MUCH]
    prior = np.median([np.var(row, ddof=1) for row in rows]) / (stats.chi2.median(4) / 4)
    se = math.sqrt((2 * prior + 4 * np.var(MUCH, ddof=1) / 2) / 6 / 5) * math.sqrt(2)
    assert one.contrast.mean == pytest.approx(np.mean(MUCH))
    assert one.contrast.se == pytest.approx(se)
    assert one.contrast.df == 6
    assert one.contrast.p == pytest.approx(2 * stats.t(6).sf(np.mean(MUCH) / se))
    half = stats.t(6).isf(0.05 / 3 / 2) * se
    assert one.contrast.family_interval == pytest.approx((np.mean(MUCH) - half, np.mean(MUCH) + half))
    assert one.contrast.sd == pytest.approx(np.std(MUCH, ddof=1))
    assert (one.n, one.is_interaction, one.verdict) == (5, True, "differs from additive")


def test_it_is_in_the_family_and_the_pair_is_not():
    found = two_by_two(MUCH)
    a, b, both = found.rows
    assert found.m == 3
    assert (both.p, both.verdict) == (None, UNDECLARED)
    ordered = sorted(
        [(a.contrast.p, a.p), (b.contrast.p, b.p), (found.combined[0].contrast.p, found.combined[0].p)]
    )
    assert ordered[0][1] == pytest.approx(3 * ordered[0][0])
    assert ordered[1][1] == pytest.approx(max(ordered[0][1], 2 * ordered[1][0]))
    assert ordered[2][1] == pytest.approx(max(ordered[1][1], ordered[2][0]))


def test_words():
    (one,) = two_by_two(NOTHING).combined
    assert one.verdict.startswith("additive within ±0.017")
    (one,) = two_by_two([0.1, -0.1, 0.05, -0.06, 0.02]).combined
    assert one.verdict.startswith("not distinguishable (MDE 0.")
    plain = two_by_two(NOTHING).rows[0].mde
    assert two_by_two(NOTHING).combined[0].mde == pytest.approx(math.sqrt(2) * plain)
    assert two_by_two(MUCH, missing=["a run"]).combined[0].verdict == ""


def test_one_variant_less_another_is_better_or_worse():
    (one,) = two_by_two(NOTHING, combinations=[A_B]).combined
    assert (one.is_interaction, one.verdict) == (False, "better")
    assert one.contrast.mean == pytest.approx(np.mean(A) - np.mean(B))
    (one,) = two_by_two(NOTHING, combinations=[Combination(name="b - a", plus=("b",), minus=("a",))]).combined
    assert one.verdict == "worse"


def test_a_sum_without_the_baseline_is_no_interaction():
    arms = [arm(name, plus(gains)) for name, gains in (("a", A), ("b", B), ("c", MUCH), ("d", MUCH))]
    sums = [Combination(name="a + b - c - d", plus=("a", "b"), minus=("c", "d"))]
    (one,) = effects(arms, arm("base", BASE), declared=set(), combinations=sums).combined
    assert (one.is_interaction, one.verdict) == (False, "differs from zero")


def test_a_diverged_arm_takes_the_word_and_stays_in_the_family():
    arms = [arm("a", plus(A)), arm("b", [*plus(B)[:4], None])]
    found = effects(arms, arm("base", BASE), declared={"a"}, combinations=[A_B])
    (one,) = found.combined
    assert (one.verdict, one.p, one.n, found.m) == ("diverged 1/10", None, 4, 2)
    assert found.rows[0].p == pytest.approx(2 * found.rows[0].contrast.p)
    assert len(one.differences) == 4


def test_an_arm_that_has_not_begun():
    (one,) = effects([arm("a", plus(A))], arm("base", BASE), declared={"a"}, combinations=[A_B]).combined
    assert (one.contrast, one.p, one.n, one.verdict, one.differences) == (None, None, 0, "", {})


def test_arms_that_are_no_pairs_are_tested_by_welch():
    arms = [arm("a", plus(A), hashes=hashes("1", w="a")), arm("b", plus(B), hashes=hashes("2", w="b"))]
    (one,) = effects(arms, arm("base", BASE), combinations=[A_B]).combined
    theirs = stats.ttest_ind(plus(A), plus(B), equal_var=False)
    assert (one.is_paired, one.differences) == (False, {})
    assert (one.contrast.p, one.contrast.df) == pytest.approx((theirs.pvalue, theirs.df))


def test_arms_are_pairs_of_each_other_where_they_are_none_of_the_baseline():
    """As two precisions are on text that the baseline does not train on."""
    arms = [arm(name, plus(gains), hashes=hashes("other", w="same")) for name, gains in (("a", A), ("b", B))]
    found = effects(arms, arm("base", BASE), declared=set(), combinations=[A_B])
    (one,) = found.combined
    theirs = stats.ttest_rel(plus(A), plus(B))  # no other row lends it a variance
    assert [row.is_paired for row in found.rows] == [False, False]
    assert (one.is_paired, len(one.differences)) == (True, 5)
    assert (one.contrast.p, one.contrast.df) == pytest.approx((theirs.pvalue, theirs.df))
    assert "paired t for pairs of each other, Welch's t for unpaired rows" in found.footer[0]
    own_sd = np.std(np.subtract(A, B), ddof=1) / math.sqrt(2)  # of one arm, beyond what the two share
    assert (one.is_apart, one.contrast.arm_sd) == (True, pytest.approx(own_sd))
    assert one.mde == pytest.approx(smallest_effect(own_sd, n=5, m=1, rho=0.0))
    assert one.mde < found.mde / 5  # the baseline's floor says nothing of them


def shown(beyond):
    arms = [arm("base", BASE), arm("a", plus(A)), arm("b", plus(B))]
    arms.append(arm("a+b", [y + a + b + d for y, a, b, d in zip(BASE, A, B, beyond, strict=True)]))
    return table(compare(arms, declared={"a", "b"}, combinations=[BOTH]))


def test_every_format_has_them():
    made = shown(MUCH)
    block = made.below[0]
    assert block.title == "Contrasts"
    assert block.rows[0][:2] == ["a+b - a - b + base", "5"]
    assert block.rows[0][2].startswith("+0.0300 [+0.02")
    assert block.rows[0][-1] == "differs from additive"
    for form, write in FORMATS.items():
        if form not in ("csv", "latex"):
            assert "differs from additive" in write(made)
    assert UNDECLARED in text(made, width=80)
    assert f"{UNDECLARED}: no contrast of the study, outside the family" in made.notes
    (one,) = json.loads(FORMATS["json"](made))["effects"]["contrasts"]
    assert (one["plus"], one["minus"], one["n"]) == (["a+b", "base"], ["a", "b"], 5)
    lines = [line for line in csv.DictReader(io.StringIO(FORMATS["csv"](made))) if line["variant"] == BOTH.name]
    assert [float(line["difference"]) for line in lines] == pytest.approx(MUCH)
    assert [line["seed"] for line in lines] == ["1", "2", "3", "4", "5"]
    assert {line["final_loss"] for line in lines} == {""}
