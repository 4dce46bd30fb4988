import math

import pytest
from scipy.stats import ttest_ind, ttest_rel

from lab.report.effects import Stats, effects
from lab.report.variants import Variant
from report.records import record

BASE = [3.20, 3.22, 3.19, 3.21, 3.205]
GAINS = [-0.050, -0.052, -0.048, -0.051, -0.049]


def arm(label, losses, **changes):
    """A variant; None is a run that diverged."""
    runs = [
        record(
            f"{label}{seed}", seed=seed, **(changes | ({"status": "diverged"} if loss is None else {"loss": loss}))
        )
        for seed, loss in enumerate(losses, 1)
    ]
    return Variant(label, {}, tuple(runs))


def plus(gains):
    return [y + d for y, d in zip(BASE, gains, strict=True)]


def hashes(batches="00", **tensors):
    return {"data": "1", "tokenizer": "2", "batches": batches, "tensors": tensors}


def one(variant, **options):
    (row,) = effects([variant], arm("base", BASE), **options).rows
    return row


def test_a_single_variant_is_scipys_paired_t():
    row = one(arm("new", plus(GAINS)))
    theirs = ttest_rel(plus(GAINS), BASE)
    assert row.contrast.p == pytest.approx(theirs.pvalue)
    assert row.p == pytest.approx(theirs.pvalue)
    assert row.paired(m=1).p == pytest.approx(theirs.pvalue)
    assert row.welch(m=1).p == pytest.approx(ttest_ind(plus(GAINS), BASE, equal_var=False).pvalue)
    assert row.differences == {str(i): pytest.approx(d) for i, d in enumerate(GAINS, 1)}
    assert (row.wins, row.pairs, row.verdict) == (5, 5, "better")


def test_words():
    assert one(arm("bad", plus([-d for d in GAINS]))).verdict == "worse"
    noise = [0.001, -0.002, 0.002, -0.001, 0.0005]
    assert one(arm("same", plus(noise))).verdict.startswith("equivalent within ±0.017")
    wide = [0.1, -0.1, 0.05, -0.06, 0.02]
    assert one(arm("wild", plus(wide))).verdict.startswith("not distinguishable (MDE 0.")
    assert one(arm("same", plus(noise)), stats=Stats(margin=1e-4)).verdict.startswith("not distinguishable")


def test_too_few_seeds_have_no_word():
    assert one(arm("two", plus(GAINS)[:2])).verdict == ""


def test_another_size_is_carried():
    row = one(arm("new", plus(GAINS), parameters={"total": 1_400_000}, flops_per_token=8.2e6))
    assert row.verdict == "better, params +6.9%"
    assert row.flops == pytest.approx(0.0123, abs=1e-4)


def test_divergence_is_never_better_and_stays_in_the_family():
    table = effects([arm("lost", [*plus(GAINS)[:4], None]), arm("new", plus(GAINS))], arm("base", BASE))
    lost, new = table.rows
    assert (lost.verdict, lost.p, lost.n, lost.diverged, lost.ended) == ("diverged 1/5", None, 4, 1, 5)
    assert lost.losses["5"] == math.inf
    assert (lost.wins, lost.pairs) == (4, 5)
    assert new.p == pytest.approx(2 * new.contrast.p)
    assert table.m == 2


def test_an_unstable_baseline_is_beaten_by_nobody():
    table = effects([arm("new", plus(GAINS))], arm("base", [*BASE[:4], None]))
    assert table.rows[0].verdict == "baseline unstable"


def test_an_incomplete_table_has_no_verdicts():
    broken = arm("broken", plus(GAINS)[:4])
    broken = Variant("broken", {}, (*broken.records, record("x", seed=5, status="failed")))
    table = effects([arm("new", plus(GAINS)), broken], arm("base", BASE))
    assert [row.verdict for row in table.rows] == ["", ""]
    assert table.footer[-1] == "no verdicts, the table is not complete: broken seed 5 failed"
    assert effects([arm("new", plus(GAINS))], arm("base", BASE), missing=["2 runs"]).rows[0].verdict == ""


def test_other_batches_or_weights_are_no_pairs():
    shared = hashes(w="a", gain="1", gain2="1")
    base = arm("base", BASE, hashes=shared)
    again = Variant("again", {}, tuple(r | {"config": r["config"] | {"study_seed": 1}} for r in base.records))
    variants = [
        arm("same", plus(GAINS), hashes=hashes(w="a", more="b", gain="1", gain2="1")),
        arm("batches", plus(GAINS), hashes=hashes("11", w="a")),
        arm("weights", plus(GAINS), hashes=hashes(w="c", gain="1", gain2="1")),
        again,
    ]
    table = effects(variants, base)
    assert [row.is_paired for row in table.rows] == [True, False, False, False]
    row = table.rows[1]
    assert row.contrast.p == pytest.approx(ttest_ind(plus(GAINS), BASE, equal_var=False).pvalue)
    assert (row.wins, row.differences) == (None, {})


def test_another_metric():
    assert one(arm("new", plus(GAINS)), metric="bits_per_byte").contrast.mean == pytest.approx(-0.05 * 0.55)
