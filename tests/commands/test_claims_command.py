"""The ledger: every claim once, the strongest tier counts, words are counted."""

import json
from dataclasses import replace

import pytest

from lab.commands import _ledger, claims
from lab.commands._ledger import ledger, studies_by_claim
from lab.errors import LabError
from lab.report.stored import Stored
from lab.study.claims import claims as shipped
from lab.study.claims import topics

GLU = "narang2021.glu-vs-relu"


def kept(tier, verdict, *, study="narang-ffn", seeds=5, pairs=1, claim=GLU):
    """A stored study with nothing in it but one verdict."""
    pair = {"better": "swiglu", "worse": "relu", "arms": ["swiglu", "relu"], "published": -0.049, "mean": -0.05}
    pair |= {
        "interval": [-0.07, -0.03],
        "p": 0.01,
        "n": seeds,
        "mde": 0.03,
        "levels": ["2.9", "3"],
        "verdict": verdict,
    }
    said = {
        "claim": claim,
        "verdict": verdict,
        "kind": verdict and verdict.split(" (")[0],
        "seeds": seeds,
        "mde": 0.03,
    }
    said |= {"metric": "final_loss", "unit": "nats", "published_unit": "nats", "told": False, "want": "lower"}
    said["note"] = "in place of tasks"
    said |= {"scale": f"1.00M parameters at {tier}", "tier": tier, "pairs": [pair] * pairs}
    empty = {"words": [], "declared": {}, "asked": "", "expected": 0, "commits": [], "dirty": False, "machine": []}
    return Stored(
        study=study,
        tier=tier,
        hash="01234567",
        date="2026-01-02",
        threads=[],
        versions={},
        hours=1.0,
        runs=[],
        claims=[said],
        **empty,
    )


@pytest.mark.slow
def test_every_claim_is_there_once(capsys):
    assert claims.main(["--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in listed] == [one.id for one in shipped()]
    assert len({one["id"] for one in listed}) == len(listed) >= 120
    keys = {"id", "source", "statement", "study", "verdict", "scale", "seeds", "tier", "date", "link", "pairs"}
    for one in listed:
        assert keys <= one.keys()
        assert one["source"]
        assert one["statement"]
        if one["study"] is None:
            assert one["status"] == "published only"
        elif one["verdict"] is None:
            assert one["status"] == ("not run" if one["pairs"] else "no pair")
        if one["verdict"] is None:
            assert {one[key] for key in ("scale", "seeds", "tier", "date", "link")} == {None}
        else:
            assert isinstance(one["seeds"], int)


def test_a_claim_is_of_the_studies_that_name_it():
    assert "narang-ffn" in studies_by_claim()[GLU]
    assert studies_by_claim().keys() <= {one.id for one in shipped()}


@pytest.mark.parametrize(
    ("there", "tier", "verdict"),
    [
        ([kept("laptop", "a"), kept("night", "b")], "night", "b"),
        ([kept("gpu", "a"), kept("paper", "b"), kept("night", "c")], "paper", "b"),
        ([kept("smoke", "a"), kept("laptop", "b")], "laptop", "b"),
        ([kept("smoke", "a")], None, None),
        ([kept("smoke", "a"), kept(None, "b")], None, "b"),
        ([kept("laptop", None), kept(None, "b", seeds=3)], None, "b"),
        ([kept("laptop", "a"), kept("tiny", "b", seeds=9)], "laptop", "a"),
    ],
)
def test_the_strongest_tier_counts_and_smoke_never(there, tier, verdict):
    (entry,) = ledger(there, [GLU])
    assert (entry.tier, entry.said.get("verdict")) == (tier, verdict)


def test_of_one_tier_more_pairs_count_and_then_more_seeds_and_never_the_verdict():
    names = [
        ledger(those, [GLU])[0].study
        for verdicts in (("a", "z"), ("z", "a"))
        for those in (
            [kept("laptop", verdicts[0], study="x"), kept("laptop", verdicts[1], study="y", pairs=2, seeds=2)],
            [kept("laptop", verdicts[0], study="x"), kept("laptop", verdicts[1], study="y", seeds=6)],
            [kept("laptop", verdicts[0], study="y"), kept("laptop", verdicts[1], study="x")],
        )
    ]
    assert names == ["y", "y", "x", "y", "y", "x"]


@pytest.mark.slow
def test_the_published_unit_is_that_of_the_figures_that_were_compared(monkeypatch, capsys):
    one = kept("laptop", "replicated (sign)")
    there = replace(one, claims=[one.claims[0] | {"published_unit": "steps a second"}])
    for stored, unit in (([there], "steps a second"), ([], "nats")):
        monkeypatch.setattr(claims, "read_all", lambda files, stored=stored: stored)
        claims.main([GLU, "--format", "json"])
        assert json.loads(capsys.readouterr().out)[0]["published_unit"] == unit


@pytest.mark.slow
def test_what_is_printed(monkeypatch, capsys):
    there = [kept("laptop", "replicated (sign)"), kept("night", "not replicated: opposite sign", claim=None)]
    other = next(one.id for one in shipped() if one.mark)
    there[1] = replace(
        there[1], claims=[there[1].claims[0] | {"claim": other, "kind": "opposite sign", "seeds": 3}]
    )
    monkeypatch.setattr(claims, "read_all", lambda files: there)
    assert claims.main([GLU]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{GLU}: replicated (sign)\n")
    assert "1.00M parameters at laptop; 5 seeds, MDE 0.03 nats; study narang-ffn, tier laptop, docs/rep" in out
    assert "\n  tested by: final_loss, in place of tasks\n" in out
    assert "swiglu < relu: published Δ -0.049, measured -0.050 [-0.070, -0.030]; replicated (sign)" in out
    assert "1 claim: 1 replicated\n1 is named by a study; 1 has a verdict" in out
    assert claims.main([]) == 0
    out = capsys.readouterr().out
    assert f"\n{len(shipped())} claims: 1 replicated, 1 opposite sign, " in out
    assert " not run, " in out
    assert " published only\n" in out
    assert f"{len(studies_by_claim())} are named by a study; 1 has a verdict at tier laptop or above of 5" in out
    assert f"{other}†" in out
    assert "† not read in the source itself" in out
    assert claims.main(["--format", "markdown", "activation"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("## Activation\n\n| claim |")
    assert "[narang-ffn (laptop)](docs/reproductions/narang-ffn.md) | 5 | replicated (sign); 1.00M" in out


def test_topics_and_words(capsys):
    assert claims.main(["norm", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in listed] == topics()["norm"]
    with pytest.raises(LabError, match=r"'nrom' is no claim and no topic; topics are .* did you mean 'norm'\?"):
        claims.main(["nrom"])
    assert _ledger.PUBLISHED_ONLY == "published only"
