import dataclasses

import pytest
import yaml

from lab.choices import names
from lab.errors import ConfigError
from lab.study.claim_verdict import Measured, judge, kind_of, summary
from lab.study.claims import Want, claims, decode

SHIPPED = claims()

ONE = """
- id: paper.norm
  source: Somebody 2020, Table 1
  statement: Somebody says so.
  setup: large
  figures: {final_loss: {rmsnorm: 1.82, layernorm: 1.84}}
  want: lower
  at: final_loss
  sd: 0.005
  n: 2
  pairs: [[rmsnorm, layernorm]]
  compare: size
  read: text
  group: norm
  metric: final_loss
"""

SEEN = Measured(
    complete=True,
    baseline_diverged=0,
    diverged=0,
    p=0.01,
    mean=-0.02,
    interval=(-0.03, -0.01),
    equivalent=None,
    mde=0.015,
)


def one():
    return decode(yaml.safe_load(ONE), "claims.yaml")[0]


def sign(**fields):
    return dataclasses.replace(one(), compare="sign", **fields)


@pytest.mark.parametrize("claim", SHIPPED, ids=lambda claim: claim.id)
def test_a_shipped_claim_says_of_its_figures_what_they_say(claim):
    if claim.group:
        assert any({*pair} <= {*names(claim.group)} for pair in claim.pairs)
    for better, worse in claim.pairs if claim.at else ():
        sign = {Want.lower: -1, Want.higher: 1}.get(claim.want)
        assert sign is None or sign * claim.delta(better, worse) > 0, (better, worse)


def test_a_claim_is_about_rows_that_differ_in_its_group_alone():
    claim = one()
    base = {"norm": "layernorm", "attn": "mha"}
    assert claim.about({"norm": "rmsnorm", "attn": "mha"}, base) == -1
    assert claim.about(base, {"norm": "rmsnorm", "attn": "mha"}) == 1
    assert claim.about({"norm": "rmsnorm", "attn": "gqa"}, base) is None
    assert claim.about({"norm": "dyt", "attn": "mha"}, base) is None
    assert claim.about(base, base) is None
    level = dataclasses.replace(claim, want=Want.flat)
    assert (
        level.about({"norm": "rmsnorm", "attn": "mha"}, base) == level.about(base, base | {"norm": "rmsnorm"}) == 0
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "replicated (sign)"),
        ({"complete": False}, "incomplete"),
        ({"baseline_diverged": 1}, "baseline unstable, lower the LR"),
        ({"diverged": 2}, "diverged here"),
        ({"p": None}, "too few seeds"),
        ({"mean": 0.02, "interval": (0.01, 0.03)}, "not replicated: opposite sign"),
        ({"p": 0.3, "equivalent": 0.01}, "not replicated: no effect >= 0.01 here"),
        ({"p": 0.3, "equivalent": 0.03}, "inconclusive at this scale (MDE 0.015)"),
        ({"p": 0.3}, "inconclusive at this scale (MDE 0.015)"),
        ({"p": 0.01, "equivalent": 0.03}, "replicated (sign)"),
    ],
)
def test_the_first_rule_that_fits_is_the_verdict(changed, said):
    assert judge(sign(), dataclasses.replace(SEEN, **changed), side=-1, published=-0.02) == said


def test_a_variant_that_was_said_to_be_worse_replicates_on_the_other_side():
    worse = dataclasses.replace(SEEN, mean=0.02, interval=(0.01, 0.03))
    assert judge(sign(), worse, side=1, published=0.02) == "replicated (sign)"
    assert judge(sign(), SEEN, side=1, published=0.02) == "not replicated: opposite sign"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"equivalent": 0.03}, "replicated (level within ±0.03)"),
        ({"p": 0.001}, "not replicated: a difference here"),
        ({"p": 0.3}, "inconclusive at this scale (MDE 0.015)"),
        ({"measured": False}, "not measured"),
    ],
)
def test_two_that_were_said_to_be_level(changed, said):
    assert judge(sign(), dataclasses.replace(SEEN, **changed), side=0, published=None) == said


@pytest.mark.parametrize(
    ("verdicts", "said", "counted"),
    [
        (["replicated (sign)"], "replicated (sign) on 1 of 3 pairs", "replicated"),
        (
            ["replicated (sign)", "replicated (size)", "replicated (size)"],
            "replicated (sign) (3 pairs)",
            "replicated",
        ),
        (
            ["replicated (sign)"] * 2 + ["inconclusive at this scale (MDE 1)"],
            "replicated 2 of 3, inconclusive at this scale 1",
            "replicated in part",
        ),
        (
            ["inconclusive at this scale (MDE 1)", "inconclusive at this scale (MDE 2)"],
            "inconclusive at this scale on 2 of 3 pairs",
            "inconclusive at this scale",
        ),
        (
            ["replicated (sign)", "not replicated: opposite sign", "too few seeds"],
            "not replicated: opposite sign (1 of 3)",
            "opposite sign",
        ),
        (
            ["diverged here", "not replicated: no effect >= 1 here", "not replicated: no effect >= 1 here"],
            "replicated 0 of 3, no effect here 2, diverged here 1",
            "diverged here",
        ),
        (["", ""], "", ""),
        ([], "", ""),
    ],
)
def test_a_claim_holds_where_each_of_its_pairs_does(verdicts, said, counted):
    assert summary(verdicts, of=3) == said
    assert kind_of(verdicts) == counted


def test_the_size_is_compared_where_the_claim_says_so():
    # Two published means of two runs each: standard error sd, so +- 0.01 around what was published.
    assert judge(one(), SEEN, side=-1, published=-0.035) == "replicated (size)"
    assert judge(one(), SEEN, side=-1, published=-0.045) == "replicated (sign)"
    unsure = dataclasses.replace(SEEN, p=0.2, interval=(-0.03, 0.01))
    assert judge(one(), unsure, side=-1, published=-0.2) == "not replicated at that size"
    assert judge(one(), unsure, side=-1, published=-0.02).startswith("inconclusive")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("sd: 0.005", "sd: null", "compare size needs at, sd and n"),
        ("[[rmsnorm, layernorm]]", "[[rmsnrom, layernorm]]", "did you mean 'rmsnorm'"),
        ("[[rmsnorm, layernorm]]", "[[rmsnorm]]", "the better one and the worse"),
        ("[[rmsnorm, layernorm]]", "[[no, layernorm]]", "paper.norm.pairs false must be a text"),
        ("n: 2", "n: 0", "n 0"),
        ("n: 2", "n: two", "paper.norm.n 'two' must be a whole number or null"),
        ("source: Somebody 2020, Table 1", "caveat: none", "paper.norm.source is not set"),
        ("{final_loss: {rmsnorm: 1.82, layernorm: 1.84}}", "1.82", "paper.norm.figures 1.82 must be a section"),
        ("read: text", "read: text\n  units: {speed: m/s}", "units 'speed' must be one of the figures: final_loss"),
        ("read: text", "read: text\n  units: m/s", "paper.norm.units 'm/s' must be a section"),
        ("setup: large", "size: large", "unknown key 'claims.yaml: paper.norm.size'"),
        ("read: text", "read: seen", "must be one of text, table, figure"),
    ],
)
def test_a_wrong_claim_is_one_line(old, new, said):
    with pytest.raises(ConfigError) as error:
        decode(yaml.safe_load(ONE.replace(old, new)), "claims.yaml")
    assert said in str(error.value).replace("'size'", "size")
    assert "\n" not in str(error.value)


def test_a_claim_stands_once():
    with pytest.raises(ConfigError, match=r"paper\.norm is there twice"):
        decode(yaml.safe_load(ONE) * 2, "claims.yaml")
