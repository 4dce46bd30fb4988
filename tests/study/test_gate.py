"""Whether a study sees what it looks for, and what is said of it."""

import math
import statistics

import pytest

from lab.stats.power import seeds_needed, smallest_effect
from lab.study.gate import ASSUMED_SD, look
from study.written import study

LOSSES = [3.01, 3.02, 2.99]
MEASURED = statistics.stdev(LOSSES) / 0.886227


def test_the_baselines_seeds_say_what_can_be_seen():
    seen = look(study(), LOSSES)
    assert (seen.source, seen.seeds, seen.contrasts, seen.unit, seen.enough) == ("measured", 3, 2, "nats", False)
    assert seen.sd == pytest.approx(MEASURED, rel=1e-6)
    assert seen.effect == smallest_effect(seen.sd, n=3, m=2, rho=0.5)
    assert seen.unpaired_effect == smallest_effect(seen.sd, n=3, m=2, rho=0)
    assert seen.seeds_needed == seeds_needed(0.02, sd=seen.sd, m=2, rho=0.5)
    assert seen.text == (
        f"the smallest effect this study can see is {seen.effect:.2g} nats (sd 0.017 measured, 3 seeds, "
        f"2 contrasts; {seen.unpaired_effect:.2g} if pairing gained nothing), larger than "
        f"study.gate.min_effect 0.02: {seen.seeds_needed} seeds would be needed; "
        "accept_mde=true goes on all the same"
    )


def test_a_study_that_sees_enough_goes_on():
    seen = look(study(), [3.0, 3.0001, 3.0002])
    assert seen.enough
    assert seen.text.endswith(", within study.gate.min_effect 0.02")
    assert look(study(), [3.0, 3.0, 3.0]).enough
    assert look(study(gate={"min_effect": 0.3}), LOSSES).enough


@pytest.mark.parametrize("losses", [[], [None, None], [3.0], [None, 3.0]])
def test_until_two_seeds_are_there_the_scatter_is_declared_or_assumed(losses):
    declared = look(study(gate={"min_effect": 0.02, "sd": 0.005}), losses)
    assert (declared.sd, declared.source) == (0.005, "declared")
    assumed = look(study(), losses)
    assert (assumed.sd, assumed.source) == (ASSUMED_SD, "assumed")


def test_without_a_gate_whatever_is_seen_is_enough():
    seen = look(study().at("smoke"), LOSSES)
    assert seen.enough
    assert seen.seeds == 2
    assert "min_effect" not in seen.text
    alone = look(study(gate=None, seeds={"report": [1], "tune": [2]}, tiers=None), [3.0])
    assert alone.enough
    assert alone.text == "the study can see nothing: one seed shows no scatter"


def test_a_baseline_that_diverges_stops_a_study_that_has_a_gate():
    seen = look(study(gate={"min_effect": 9}), [3.0, 3.1, math.inf])
    assert not seen.enough
    assert seen.text == (
        "the baseline diverged in 1 of 3 runs, so that there is little to compare with: a lower optim.lr may help; "
        "accept_mde=true goes on all the same"
    )
    assert look(study(gate=None), [3.0, 3.1, math.inf]).enough


def test_more_power_or_fewer_false_positives_need_a_larger_effect():
    usual = look(study(), LOSSES).effect
    assert look(study(stats={"power": 0.9}), LOSSES).effect > usual
    assert look(study(stats={"alpha": 0.01}), LOSSES).effect > usual
    assert look(study(contrasts=["rmsnorm - gqa"]), LOSSES).effect < usual


def test_an_interaction_is_seen_less_well_and_other_metrics_have_units_of_their_own():
    pair = {"a": {"set": {"attn": "gqa"}}, "b": {"set": {"activation": "relu"}}}
    seen = look(study(design="pairwise", variants=pair, primary="bits_per_byte"), LOSSES)
    assert (seen.contrasts, seen.unit) == (3, "bits per byte")
    assert "if pairing gained nothing; 1.4 times that for an interaction)" in seen.text
