"""Claims beside the rows of a table that they are about."""

import dataclasses
import json

import pytest
from report.records import LAYERNORM, record

from lab.commands._claims import published, with_claims
from lab.report.comparison import compare
from lab.report.effects import effects
from lab.report.formats import FORMATS
from lab.report.main_table import table
from lab.report.page.claim_list import claim_list
from lab.report.variants import Variant

BASE = [3.20, 3.22, 3.19, 3.21, 3.205]
GAINS = [-0.050, -0.052, -0.048, -0.051, -0.049]
RELU = {"name": "relu", "d_ff": None, "ratio": 4}


def arm(label, gains, **changes):
    losses = [y + d for y, d in zip(BASE, gains, strict=True)]
    runs = [record(f"{label}{seed}", seed=seed, loss=loss, **changes) for seed, loss in enumerate(losses, 1)]
    return Variant(label, {}, tuple(runs))


def found(variant, baseline, **options):
    return published(effects([variant], baseline, **options), [variant], baseline)


def test_a_gate_that_helps_replicates_and_one_that_hurts_does_not():
    relu = arm("relu", [0] * 5, activation=RELU)
    (each,) = found(arm("swiglu", GAINS), relu)
    assert (each.claim.id, each.verdict) == ("narang2021.glu-vs-relu", "replicated (sign)")
    assert each.delta == pytest.approx(1.789 - 1.838)
    assert each.text == "-0.049"
    assert "223M" in each.line, "the published scale stands beside"
    measured = each.data["measured"]
    assert (measured["n"], measured["mean"]) == (5, pytest.approx(-0.05))
    assert measured["interval"][0] < -0.05 < measured["interval"][1]
    (each,) = found(arm("swiglu", [-d for d in GAINS]), relu)
    assert each.verdict == "not replicated: opposite sign"


def test_the_order_of_the_pair_does_not_matter():
    (each,) = found(arm("relu", [-d for d in GAINS], activation=RELU), arm("swiglu", [0] * 5))
    assert (each.verdict, each.text) == ("replicated (sign)", "+0.049")


def test_an_incomplete_table_says_so():
    (each,) = found(arm("layernorm", GAINS, norm=LAYERNORM), arm("rms", [0] * 5), missing=["a run"])
    assert (each.claim.id, each.verdict) == ("narang2021.rmsnorm", "incomplete")


def test_figures_without_a_claim_have_no_verdict():
    relu = arm("relu", [0] * 5, activation=RELU)
    (each,) = found(arm("gelu", GAINS, activation={"name": "gelu", "d_ff": None, "ratio": 4}), relu)
    assert (each.verdict, each.text) == ("", "+0.000")


@pytest.mark.parametrize(
    "changes",
    [
        {"attn": {"name": "mha"}, "activation": RELU},
        {"activation": {"name": "swiglu", "d_ff": 12, "ratio": 8 / 3}},
        {"model": {"dim": 64, "n_layers": 4}, "activation": RELU},
    ],
)
def test_rows_that_differ_in_more_or_in_no_choice_meet_no_claim(changes):
    assert not found(arm("other", GAINS, **changes), arm("swiglu", [0] * 5))


def test_the_report_tells_both_scales_and_what_was_measured():
    relu, swiglu = arm("relu", [0] * 5, activation=RELU), arm("<swiglu>", GAINS)
    text = claim_list([each.data for each in found(swiglu, relu)], [*relu.records, *swiglu.records])
    for said in (
        "a gated feed-forward branch ends below ReLU",
        "Published: Narang et al. 2021, arXiv:2102.11972, Table 1: 223M parameters",
        "Here: 1.31M parameters, decoder-only language model, sotu, 1.23M tokens a run",
        "&lt;swiglu&gt;",
        "-0.049",
        "-0.050 [-0.0",
        "replicated (sign)",
    ):
        assert said in text
    assert "<swiglu>" not in text
    assert "No row differs" in claim_list([], relu.records)


JUDGED = {
    "claim": "narang2021.glu-vs-relu",
    "statement": "Gates help.",
    "source": "Narang et al. 2021",
    "setup": "223M parameters",
    "told": True,
    "caveat": None,
    "published_unit": "nats",
    "pairs_of_claim": 7,
    "note": None,
    "metric": "final_loss",
    "unit": "nats",
    "want": "lower",
    "verdict": "replicated 1 of 2, inconclusive at this scale 1 on 2 of 7 pairs",
    "kind": "replicated in part",
    "seeds": 5,
    "mde": 0.04,
    "scale": "1.31M parameters",
    "tier": "laptop",
    "pairs": [
        {
            "better": "swiglu",
            "worse": "relu",
            "arms": ["gate", "relu"],
            "published": -0.049,
            "mean": -0.05,
            "interval": [-0.06, -0.04],
            "p": 0.0001,
            "n": 5,
            "mde": 0.04,
            "diverged": [0, 0],
            "levels": ["3.15", "3.2"],
            "verdict": "replicated (sign)",
        },
    ],
}
"""A claim as a study has it."""


def test_a_claim_that_a_study_names_is_told_once_and_in_the_order_of_the_row():
    plain = compare([arm("gate", [0] * 5), arm("relu", [-d for d in GAINS], activation=RELU)])
    made = with_claims(dataclasses.replace(plain, judged=(JUDGED,)))
    assert made.published["published Δ"] == {"relu": "+0.049†"}, "the baseline is the better one here"
    assert made.published["claim"] == {"relu": "replicated (sign)"}
    assert [each["variant"] for each in made.claims if each["claim"] == JUDGED["claim"]] == ["gate < relu"]
    text = FORMATS["text"](table(made))
    for said in (
        "narang2021.glu-vs-relu: gate < relu",
        "3.15 / 3.2",
        "-0.049†",
        "-0.050 [-0.060, -0.040]",
        "final_loss; 5 seeds, MDE 0.04",
        "verdicts are about 1.31M parameters, not about the published scale",
    ):
        assert said in text
    for form in ("markdown", "latex", "html"):
        assert "replicated 1 of 2" in FORMATS[form](table(made))
    assert json.loads(FORMATS["json"](table(made)))["published"][0]["pairs"][0]["mde"] == 0.04


def test_the_report_tells_the_verdict_of_a_claim_over_its_pairs():
    plain = compare([arm("gate", [0] * 5), arm("relu", [-d for d in GAINS], activation=RELU)])
    made = with_claims(dataclasses.replace(plain, judged=(JUDGED,)))
    text = claim_list(made.claims, made.records)
    for said in (
        "Verdict: replicated 1 of 2",
        "Measured: final_loss",
        "gate &lt; relu",
        "-0.049†",
        "told by others",
    ):
        assert said in text
