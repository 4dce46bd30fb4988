"""What `lab plan` says of a study before it is trained."""

import json
import re

import pytest

from lab import cli
from lab.commands._cost import priced, refuse_twins
from lab.errors import ConfigError
from lab.stats.power import smallest_effect
from lab.study.cell import Cell
from lab.study.design import Arm

ARMS = ["layernorm", "no_bias", "rmsnorm", "scalenorm", "dyt"]
PAGE_WIDTH = 116


@pytest.fixture
def call(words, capsys):
    """Run `lab plan` on small runs: the status, the output, the errors."""

    def call(*argv):
        capsys.readouterr()
        line = ["plan", *argv[:1], *(word for word in words() if word != "threads=1"), *argv[1:]]
        try:
            status = cli._run(line)
        except SystemExit as ended:
            status = ended.code
        output = capsys.readouterr()
        return status, output.out, output.err

    return call


@pytest.fixture
def plan(call):
    """What `lab plan` knows, as JSON."""

    def plan(*argv):
        status, out, err = call(*argv, "--format", "json")
        assert (status, [line for line in err.splitlines() if "20 steps" not in line]) == (0, [])
        return json.loads(out)

    return plan


@pytest.mark.slow
def test_a_plan_counts_runs_and_says_what_can_be_seen(plan):
    facts = plan("study=norms", "tier=smoke", "--no-trial")
    assert [arm["name"] for arm in facts["arms"]] == ARMS
    assert facts["contrasts"] == [f"{name} - layernorm" for name in ARMS[1:]]
    assert [(stage["name"], stage["arms"], stage["seeds"], stage["runs"]) for stage in facts["stages"]] == [
        ("baseline", 1, 2, 2),
        ("variants", 4, 2, 8),
    ]
    assert (facts["runs"], facts["done"], facts["edge_runs"], facts["seconds"]) == (10, 0, 0, None)
    assert (facts["arms"][0]["tokens"], facts["arms"][0]["steps"]) == (20 * 4 * 32, 20)
    assert "norm=layernorm" in facts["arms"][0]["overrides"]
    sight = facts["sight"]
    assert (sight["source"], sight["sd"], sight["min_effect"]) == ("assumed", 0.012, None)
    assert sight["effect"] == smallest_effect(0.012, n=2, m=4, rho=0.5)
    assert [row["seeds"] for row in facts["by_seeds"]] == [2, 3, 5, 8, 12, 16]
    assert facts["by_seeds"][3]["runs"] == 40
    assert facts["by_seeds"][3]["effects"]["0.8"] == smallest_effect(0.012, n=8, m=4, rho=0.8)


@pytest.mark.slow
def test_claims_are_told_with_why_they_are_out_of_reach(capsys):
    def plan(*argv):
        assert cli._run(["plan", "study=narang-ffn", *argv, "--no-trial", "--format", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    facts = plan("tier=laptop")
    claims = {claim["id"]: claim for claim in facts["claims"]}
    order = claims["narang2021.activation-order"]
    assert (order["in_reach"], order["why"], order["metric"]) == (True, None, "final_loss")
    assert ["relu", "elu"] in order["pairs"]
    assert order["effect"] > facts["sight"]["effect"]
    assert "weaker" in claims["narang2021.glu-vs-relu"]["note"]
    facts = plan("tier=laptop", "study.tiers.laptop.report=2")
    assert {claim["why"] for claim in facts["claims"]} == {"2 report seeds: 3 or more are tested"}
    assert cli._run(["plan", "study=narang-ffn", "tier=smoke", "--no-trial"]) == 0
    page = capsys.readouterr().out
    assert "claims    0 of " in page
    assert "out of reach: tier smoke has no verdicts" in page


@pytest.mark.slow
def test_over_budget_arms_are_named_and_the_word_that_leaves_them_out_works(plan, call):
    facts = plan("study=norms", "tier=smoke", "--workers", "1", "--budget", "0.0001")
    budget = facts["budget"]
    assert not budget["fits"]
    assert (budget["drop"], budget["word"]) == (ARMS[:1:-1], "study.tiers.smoke.arms=[no_bias]")
    assert budget["text"].endswith(budget["word"] + "'")
    less = plan("study=norms", "tier=smoke", "--no-trial", budget["word"])
    assert [arm["name"] for arm in less["arms"]] == ["layernorm", "no_bias"]
    assert less["budget"] is None
    status, _, err = call("study=norms", "tier=smoke", "--no-trial", "study.tiers.smoke.arms=[no_bais]")
    assert status == 1
    assert "did you mean 'no_bias'?" in err


@pytest.mark.slow
def test_a_study_that_would_read_its_corpus_too_often_is_refused(call, lab, words):
    own = ["study=norms", "tier=smoke", "study.max_epochs=0.01"]
    status, out, err = call(*own, "--no-trial")
    assert (status, out, err.count("\n")) == (1, "", 1)
    trained = lab("train", *own, *(word for word in words() if word != "threads=1"))
    assert (trained.returncode, trained.stderr.replace("lab train", "lab plan")) == (1, err)
    least = re.search(r"study\.max_epochs is 0\.01: train\.steps=(\d+) at most", err)
    assert "'layernorm' would read " in err
    assert least
    status, out, _ = call(*own, "--no-trial", f"train.steps={least[1]}")
    assert status == 0


@pytest.mark.slow
def test_runs_that_are_done_are_counted_and_tell_how_seeds_scatter(plan, train):
    losses = [train("norm=layernorm", f"seed={seed}").result["final_loss"] for seed in (1, 2)]
    train("norm=dyt", "seed=2")
    facts = plan("study=norms", "tier=smoke", "--no-trial")
    assert [stage["done"] for stage in facts["stages"]] == [2, 1]
    assert facts["sight"]["source"] == "measured"
    assert facts["sight"]["sd"] == pytest.approx(abs(losses[0] - losses[1]) / 2**0.5 / 0.797885, rel=1e-5)


@pytest.mark.slow
def test_a_page_for_people(call):
    status, page, err = call("study=norms", "study.gate.min_effect=0.001", "--no-trial")
    assert (status, err) == (0, "")
    assert max(map(len, page.splitlines())) <= PAGE_WIDTH
    for line in (
        "question  Does another norm than LayerNorm lose anything?",
        "stages    baseline: 1 arm x 5 seeds = 5 runs",
        "          variants: 4 arms x 5 seeds = 20 runs",
        "runs      25, 0 of them done",
        "time      not tried (--no-trial)",
    ):
        assert f"{line}\n" in page
    assert "larger than study.gate.min_effect 0.001: " in " ".join(page.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["tier=smoke"], "lab plan: study=NAME is missing: one of "),
        (["study=norms", "tier=big"], "lab plan: tier 'big' is not one of smoke, laptop, gpu"),
        (["study=norms", "norm=dyt"], "lab plan: norm=dyt cannot be given with study=norms: its arms set that key"),
        (["study=norms", "--budget", "3", "--no-trial"], "lab plan: --budget and --no-trial exclude each other"),
        (["study=norms", "--budget", "0"], "lab plan: --budget 0.0 must be a number of minutes above 0"),
        (["study=norms", "--workers", "0"], "lab plan: --workers 0 must be 1 or more"),
        (["study=norms", "model.n_heads=3"], "(in the arm layernorm)"),
        (["study=norms", "study.variants.dyt.set.norm=dty"], "norm 'dty' is not one of"),
    ],
)
def test_a_wrong_line_is_refused(call, argv, says):
    status, out, err = call(*argv)
    assert status in (1, 2)
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_arms_that_come_to_the_same_run_are_refused(words):
    default, same, other = (
        priced(Arm(name, tuple(words(*own))))
        for name, own in (("a", []), ("b", ["norm=rmsnorm"]), ("c", ["norm=dyt"]))
    )
    refuse_twins("mine", [default, other])
    with pytest.raises(ConfigError, match=r"^study mine: 'a' and 'b' come to the same run$"):
        refuse_twins("mine", [default, other, same])


@pytest.mark.slow
def test_a_run_at_another_rate_is_found_by_its_own_id(words, train):
    arm = Arm("x", tuple(words("norm=dyt")))
    trained = train("norm=dyt", "optim.lr=0.0123", "seed=7")
    result = priced(arm).ended(Cell("x", (), "tune", 7, 0.0123))
    assert result["id"] == trained.folder.name
    assert priced(arm).ended(Cell("x", (), "tune", 7, 0.0124)) is None


@pytest.mark.slow
def test_a_trial_says_how_long_it_takes(plan, outputs):
    facts = plan("study=norms", "tier=smoke", "--workers", "1")
    trial = facts["trial"]
    assert (facts["workers"], outputs.exists()) == (1, False)
    assert 0 < trial["step_s"] < 1
    assert 0 < trial["rest_s"] < 30
    assert facts["seconds"] == pytest.approx(10 * (20 * trial["step_s"] + trial["rest_s"]), rel=0.05)
    weights = 4 * facts["arms"][0]["parameters"]
    assert weights < trial["kept_bytes"] < 2 * weights + 200_000
    assert facts["gib"] * 2**30 == pytest.approx(10 * (trial["kept_bytes"] + 20 * trial["step_bytes"]))
