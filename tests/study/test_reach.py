"""Which claims a tier can say anything about."""

import math

import pytest

from lab.stats.power import smallest_effect
from lab.study.gate import sight
from lab.study.reach import reaches
from study.written import study

GLU = "narang2021.glu-vs-relu"
ARMS = ["relu", "swiglu", "geglu", "gelu"]
VARIANTS = {name: {"set": {"activation": name}} for name in ARMS[1:]}
SIZES = {"smoke": {"report": 2, "lr": "shared"}, "less": {"arms": ["gelu"]}, "few": {"report": 2}}


def reach(claim=GLU, *, tier=None, sd=0.001, **published):
    one = study(
        baseline={"name": "relu", "set": {"activation": "relu"}},
        variants=VARIANTS,
        tiers=SIZES,
        published=[{"claim": claim, **published}],
    ).at(tier)
    names = ["relu", *(variant.name for variant in one.variants)]
    (found,) = reaches(one, sight(one, sd, "declared"), names, ARMS)
    return found


def test_a_claim_whose_published_difference_would_be_seen_is_in_reach():
    found = reach()
    assert found.why is None
    assert found.pairs == (("swiglu", "relu"), ("geglu", "relu"), ("geglu", "gelu"))
    assert found.visible == 3
    assert found.effect == pytest.approx(1.838 - 1.789)
    assert found.arms == {*ARMS}
    assert found.note.startswith("if it is as large as published; a weaker one is expected of small models: ")


def test_one_that_is_smaller_than_what_is_seen_is_not():
    found = reach(sd=0.1)
    assert (found.visible, found.note) == (0, None)
    seen = smallest_effect(0.1, n=3, m=3, rho=0.5)
    assert found.why == f"published 0.049 nats at most, and {seen:.2g} nats is the smallest effect seen"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"tier": "smoke"}, "tier smoke has no verdicts"),
        ({"tier": "less"}, "no two of its arms are at tier less: swiglu, geglu left out"),
        ({"tier": "few"}, "2 report seeds: 3 or more are tested"),
        ({"metric": "best_loss"}, "2 tuning seeds: 3 or more are tested"),
        ({"claim": "shazeer2020.glue"}, "it cannot be tested with models of this size: "),
    ],
)
def test_other_reasons(asked, why):
    assert reach(**asked).why.startswith(why)


def test_what_is_no_loss_has_no_size_to_compare():
    found = reach(metric="tokens_per_s", want="higher")
    assert (found.visible, found.effect, found.why) == (None, None, None)


def test_perplexities_are_compared_by_their_logarithms():
    found = reach("press2021.extrapolation-512", arms={"alibi": "gelu", "rope": "relu"})
    values = found.claim.values()
    assert found.effect == pytest.approx(abs(math.log(values["rope"] / values["alibi"])))
