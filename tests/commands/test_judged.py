"""The claims that a study names, judged from invented results."""

import dataclasses
import math

import pytest
from report.records import record

from lab.commands import _judged
from lab.commands._judged import judged
from lab.study.claims import decode

BASE = [3.20, 3.22, 3.19, 3.21, 3.205]
JITTER = [0.001, -0.002, 0.002, 0.000, -0.001]
GRID = [0.01, 0.03, 0.1]

CLAIM = {
    "id": "paper.order",
    "source": "Somebody 2020, Table 1",
    "statement": "Somebody says so.",
    "setup": "1G parameters",
    "figures": {"loss": {"a": 1.8, "b": 1.9, "c": 2.0}},
    "want": "lower",
    "at": "loss",
    "unit": "nats",
    "n": 1,
    "pairs": [["a", "b"], ["b", "c"], ["a", "c"]],
    "read": "text",
}


@pytest.fixture
def claims(monkeypatch):
    """Puts a claim in the place of the shipped ones."""

    def put(**changes):
        (made,) = decode([CLAIM | changes], "claims")
        monkeypatch.setattr(_judged, "claim", lambda name: made)

    put()
    return put


def declared(arms=("a", "b", "c"), **entry):
    return {
        "primary": "final_loss",
        "design": "star",
        "contrasts": None,
        "baseline": {"name": arms[0]},
        "variants": [{"name": name} for name in arms[1:]],
        "stats": {"alpha": 0.05, "power": 0.8, "margin": None},
        "lr": {"mode": "shared", "grid": GRID},
        "tier": "laptop",
        "verdicts": True,
        "published": [{"claim": "paper.order", **entry}],
    }


def runs(seeds=5, **shift):
    """Arms whose losses are the first one's plus a shift."""
    return {
        arm: [
            record(f"{arm}{seed}", seed=seed, loss=loss + by + k * noise)
            for seed, (loss, noise) in enumerate(zip(BASE[:seeds], JITTER, strict=False), 1)
        ]
        for k, (arm, by) in enumerate(shift.items())
    }


def one(*args, **options):
    (found,) = judged(*args, **options)
    return found


def test_each_pair_that_is_of_two_arms_has_a_verdict_and_the_claim_one_over_all(claims):
    found = one(declared(), runs(a=0, b=0.1, c=0.2))
    assert [pair.arms for pair in found.pairs] == [("a", "b"), ("b", "c"), ("a", "c")]
    assert [pair.mean for pair in found.pairs] == pytest.approx([-0.1, -0.1, -0.2], abs=0.01)
    assert (found.verdict, found.kind) == ("replicated (sign) (3 pairs)", "replicated")
    data = found.data
    assert data["scale"].startswith("1.31M parameters")
    assert (data["seeds"], data["tier"]) == (5, "laptop")
    assert data["mde"] > 0
    assert (data["metric"], data["note"]) == ("final_loss", None)
    fewer = one(declared(("a", "b")), runs(a=0, b=0.1))
    assert fewer.verdict == "replicated (sign) on 1 of 3 pairs"


def test_a_claim_that_is_published_the_wrong_way_round_is_caught(claims):
    claims(pairs=[[worse, better] for better, worse in CLAIM["pairs"]])
    found = one(declared(), runs(a=0, b=0.1, c=0.2))
    assert {pair.verdict for pair in found.pairs} == {"not replicated: opposite sign"}
    assert (found.verdict, found.kind) == ("not replicated: opposite sign (3 of 3)", "opposite sign")
    claims()
    mixed = one(declared(), runs(a=0, b=0.2, c=0.1))
    assert mixed.verdict == "not replicated: opposite sign (1 of 3)"


def test_a_claim_of_which_some_pairs_are_not_seen_says_how_many_are(claims):
    found = one(declared(), runs(a=0, b=0.1, c=0.1))
    assert found.verdict == "replicated 2 of 3, no effect here 1"
    assert found.kind == "replicated in part"


def test_a_pair_with_the_baseline_has_the_test_of_the_table(claims):
    from lab.commands._family import family_of
    from lab.report.comparison import compare
    from lab.report.variants import Variant

    some = runs(a=0, b=0.01, c=0.2)
    table = compare(
        [Variant(arm, {}, tuple(r)) for arm, r in some.items()], **family_of(declared(), [*some])
    ).effects
    first, _, last = one(declared(), some).pairs
    for pair, row in zip((first, last), table.rows, strict=True):
        assert (pair.p, pair.mean, pair.mde) == (row.p, pytest.approx(-row.contrast.mean), row.mde)
        low, high = row.contrast.family_interval
        assert pair.interval == (-high, -low)


def test_the_better_arm_may_have_the_higher_number(claims):
    some = runs(a=0, b=0, c=0)
    for arm, factor in (("a", 1.5), ("b", 1.2), ("c", 1.0)):
        some[arm] = [
            run | {"tokens_per_s": factor * (1000 + 100 * y)} for run, y in zip(some[arm], BASE, strict=True)
        ]
    said = [one(declared(metric="tokens_per_s", want=want), some).kind for want in ("higher", "lower")]
    assert said == ["replicated", "opposite sign"]


def test_pairs_of_all_claims_on_a_metric_are_one_family_in_which_each_counts_once(claims):
    claims(pairs=[["a", "b"]])
    alone, values = declared(metric="bits_per_byte"), runs(a=0, b=0.004, c=0.2, d=0.2)
    for arms in values.values():
        for run in arms:
            run["bits_per_byte"] = run["final_loss"]
    entry, turned = {"metric": "bits_per_byte"}, {"a": "b", "b": "a"}
    first = one(alone, values).pairs[0]
    more = [{"claim": "paper.order", **entry, "arms": arms} for arms in (turned, {"a": "c", "b": "d"})]
    together = judged(alone | {"published": [*alone["published"], *more]}, values)
    same, reverse, _ = (found.pairs[0] for found in together)
    assert same.p == pytest.approx(2 * first.p)  # that of the third pair is larger
    assert (reverse.p, reverse.mean) == (same.p, -same.mean)
    assert reverse.interval == (-same.interval[1], -same.interval[0])
    assert same.interval[0] < first.interval[0]


def test_numbers_of_the_same_runs_may_be_set_against_each_other(claims):
    some = runs(x=0, y=0)
    for base, number in ((some["x"], 1.0), (some["y"], -1.0)):
        for run, noise in zip(base, JITTER, strict=True):
            shares = {"a_share": 0.1, "b_share": 0.1 + number * (0.3 + noise), "c_share": 0.8 + noise}
            run["measures"] = {"step": shares}
    found = one(declared(("x", "y"), metric="measures.step.{}_share", want="lower"), some)
    assert [pair.mean for pair in found.pairs] == pytest.approx([-0.3, -0.4, -0.7], abs=0.01)
    assert found.verdict == "replicated (sign) (3 pairs)"
    assert one(declared(("x", "y"), metric="measures.step.{}_share", want="higher"), some).kind == "opposite sign"
    assert "measures.step.{}_share" not in some["x"][0]


def test_two_that_were_said_to_be_level(claims):
    claims(want="flat", at=None)
    some = runs(a=0, b=0.001, c=0.2)
    first, second, _ = one(declared(margin=0.05), some).pairs
    assert first.verdict == "replicated (level within ±0.05)"
    assert second.verdict == "not replicated: a difference here"
    assert one(declared(margin=0.0001), some).pairs[0].verdict.startswith("inconclusive at this scale (MDE ")


def test_what_was_published_in_another_unit_is_no_measure_of_ours(claims):
    level = runs(a=0, b=0.001, c=0.0)
    wide = {"margin": 0.06}
    assert one(declared(**wide), level).pairs[0].verdict == "not replicated: no effect >= 0.06 here"
    claims(figures={"loss": {"a": 1.8, "b": 1.85, "c": 2.0}})
    assert one(declared(**wide), level).pairs[0].verdict.startswith("inconclusive"), "0.05 published, margin 0.06"
    assert "seeds for the published effect" in one(declared(**wide), level).pairs[0].verdict
    claims(figures={"loss": {"a": 1.8, "b": 1.85, "c": 2.0}}, unit="perplexity")
    assert one(declared(**wide), level).pairs[0].verdict == "not replicated: no effect >= 0.06 here"
    assert one(declared(), level).pairs[0].verdict.startswith("inconclusive"), "nobody declared a margin"


def test_nothing_is_said_beyond_the_evidence(claims):
    shift = {"a": 0, "b": 0.1, "c": 0.2}
    assert one(declared(), runs(seeds=2, **shift)).kind == "too few seeds"
    assert one(declared(), runs(**shift), missing=["a run"]).kind == "incomplete"
    assert one(declared() | {"tier": "smoke", "verdicts": False}, runs(**shift)).verdict == ""
    lost = runs(**shift)
    lost["c"][0] = record("c1", seed=1, status="diverged")
    assert [pair.verdict for pair in one(declared(), lost).pairs][1:] == ["diverged here (runs: c 1)"] * 2
    assert one(declared(metric="measures.lengths.loss_x4"), runs(**shift)).kind == "not measured"
    assert one(declared(metric="best_loss"), runs(**shift)).kind == "not measured", "no run at several rates"
    assert one(declared(), {"a": [], "b": [], "c": []}).kind == "not measured"
    assert judged(declared(("x", "y")), {"x": [], "y": []}) == []


def tuning(**curves):
    """Runs of arms at all rates: by seed, losses."""
    return {
        arm: [
            _at(arm, seed, lr, loss)
            for seed, losses in enumerate(own, 101)
            for lr, loss in zip(GRID, losses, strict=True)
        ]
        for arm, own in curves.items()
    }


def _at(arm, seed, lr, loss):
    status = "done" if math.isfinite(loss) else "diverged"
    return record(f"{arm}{seed}{lr}", seed=seed, loss=loss, status=status, optim__lr=lr)


def test_learning_rates_are_compared_over_the_tuning_seeds(claims):
    inf = math.inf
    curves = tuning(
        a=[(3.0, 2.9, 3.0 + d) for d in (0, 0.01, -0.01)], b=[(3.0, 2.9, 4.0 + d) for d in (0, 0.02, -0.01)], c=[]
    )
    found = one(declared(("a", "b"), metric="lr_sensitivity"), runs(a=0, b=0), tuning=curves)
    assert found.pairs[0].mean == pytest.approx(-1 / 3, abs=0.01)
    assert found.pairs[0].n == 3
    assert found.kind == "replicated"
    claims(pairs=[["a", "b"]], want="higher", at=None)
    curves = tuning(a=[(3.0, 2.9, 3.0)] * 5, b=[(inf, inf, inf)] * 5)
    (pair,) = one(declared(("a", "b"), metric="first_diverging_lr"), runs(a=0, b=0), tuning=curves).pairs
    assert pair.levels == ("> 0.1", "0.01")
    assert pair.mean == pytest.approx(math.log2(10) * 1.5)
    assert pair.verdict == "replicated (sign)"


def test_seeds_that_agree_on_a_grid_are_no_finer_than_its_step(claims):
    claims(pairs=[["a", "b"]], want="higher", at=None)
    inf = math.inf
    curves = tuning(a=[(3.0, 2.9, inf)] * 3, b=[(3.0, inf, inf)] * 3)
    (pair,) = one(declared(("a", "b"), metric="first_diverging_lr"), runs(a=0, b=0), tuning=curves).pairs
    assert 0.01 < pair.p < 0.2, "without any scatter p would be 0"
    assert pair.interval[0] < pair.mean < pair.interval[1]
    assert pair.mde > 0


def test_figures_under_another_key_have_the_unit_of_that_key(claims):
    claims(
        figures={"loss": CLAIM["figures"]["loss"], "speed": {"a": 2, "b": 1}},
        units={"speed": "steps a second"},
        pairs=[["a", "b"]],
    )
    found = [one(declared(at=at), runs(a=0, b=0.1, c=0.1)).data for at in (None, "loss", "speed")]
    assert [one["published_unit"] for one in found] == ["nats", "nats", "steps a second"]
    assert [one["pairs"][0]["published"] for one in found] == pytest.approx([-0.1, -0.1, 1])


def test_a_margin_of_the_claim_and_its_figures_may_be_said_in_the_study(claims):
    claims(figures={"loss": {"a": 1.8, "b": 1.9, "c": 2.0}, "late": {"a": 1.0, "b": 1.5}})
    found = one(declared(("a", "b"), at="late"), runs(a=0, b=0.1))
    assert found.pairs[0].published == pytest.approx(-0.5)
    assert dataclasses.asdict(found.pairs[0])["better"] == "a"
