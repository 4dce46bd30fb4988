"""A study as a user has it: one file, trained, killed, edited, told and tabulated."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

STUDY = """
# @package _global_
hydra:
  mode: MULTIRUN
study:
  question: Does the norm matter?
  baseline: {{name: layernorm, set: {{norm: layernorm}}}}
  variants:
    rmsnorm: {{set: {{norm: rmsnorm}}}}
  design: star
  seeds: {{report: [1, 2, 3], tune: [101]}}
  lr: {{mode: tuned, grid: [1.0e-5, 3.0e-3, 3.0e+1], extend: 0}}
  gate: {{min_effect: {min_effect}}}
  tiers:
    smoke: {{report: 2}}
    one: {{report: 1, lr: shared, verdicts: false}}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a study of the user's own."""
    (tmp_path / "own" / "study").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    write()
    return tmp_path


def write(min_effect=100):
    text = STUDY.lstrip().format(min_effect=min_effect)
    Path("own/study/mine.yaml").write_text(text)


@pytest.fixture
def study(lab, words):
    """The command, with more words."""
    given = words("train.steps=8", "threads=1")
    return lambda *more: lab("train", "--config-dir", "own", "study=mine", *given, *more, timeout=400)


def test_a_run_that_fails_fails_the_study(here, study, lab):
    text = (here / "own/study/mine.yaml").read_text().replace("{norm: rmsnorm}", "{norm: rmsnorm, init_from: gone}")
    (here / "own/study/mine.yaml").write_text(text)
    refused = study("tier=smoke")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "gone" in refused.stderr
    assert not (here / "outputs").exists()


def told(lab, name="mine"):
    return json.loads(lab("status", name, "--format", "json").stdout)


def test_rates_are_picked_on_seeds_that_are_not_reported(here, study, lab):
    ended = study("tier=smoke")
    assert ended.returncode == 0, ended.stderr
    assert "layernorm: best rate 0.003 of 1e-05: " in ended.stdout
    assert "tokens/s" not in ended.stdout + ended.stderr, "the board tells, and not each run"
    facts = told(lab)
    assert sum(facts["counts"].get(status, 0) for status in ("done", "diverged")) == facts["expected"] == 10
    tuning = [(run["arm"], run["seed"], run["lr"]) for run in facts["runs"] if run["role"] == "tune"]
    assert tuning == [(arm, 101, lr) for arm in ("layernorm", "rmsnorm") for lr in (1e-5, 3e-3, 30.0)]
    reported = [(run["arm"], run["seed"], run["lr"]) for run in facts["runs"] if run["role"] == "report"]
    assert reported == [(arm, seed, 3e-3) for arm in ("layernorm", "rmsnorm") for seed in (1, 2)]
    stages = list(dict.fromkeys(run["stage"] for run in facts["runs"]))
    assert stages == ["baseline, tuning", "baseline", "variants, tuning", "variants"]

    again = study("tier=smoke")
    assert "10 runs: 0 trained, 10 already done" in again.stdout
    rows = json.loads(lab("table", "mine", "--format", "json").stdout)["rows"]
    assert [(row["n"], row["seeds"]) for row in rows] == [(2, [1, 2]), (2, [1, 2])], "tuning runs are no results"


def test_a_study_that_cannot_see_stops_after_its_baseline_and_goes_on_when_told(here, study, lab):
    write(min_effect=1e-6)
    stopped = study()
    assert stopped.returncode == 1
    assert stopped.stderr.count("\n") == 1
    assert "study mine: the smallest effect this study can see is" in stopped.stderr
    facts = told(lab)
    assert [run["arm"] for run in facts["runs"]] == ["layernorm"] * 6
    assert facts["counts"]["pending"] == 6
    table = lab("table", "mine")
    assert "is not complete: 6 of 12 runs have no result; lab resume mine" in table.stderr
    ended = study("accept_mde=true")
    assert ended.returncode == 0, ended.stderr
    assert "6 trained, 6 already done" in ended.stdout
    assert told(lab)["study"] == facts["study"], "accepting is no part of what is asked"


def test_an_edited_file_is_another_study(here, study, lab):
    assert study("tier=one").returncode == 0
    file = here / "own/study/mine.yaml"
    file.write_text(file.read_text().replace("norm: rmsnorm", "norm: scalenorm"))
    edited = study("tier=one")
    assert edited.returncode == 0, edited.stderr
    assert "declared otherwise before" in edited.stdout
    assert "2 runs: 1 trained, 1 already done" in edited.stdout, "the baseline is the same run"
    studies = [one["study"] for one in json.loads(lab("status", "--format", "json").stdout)]
    assert len(studies) == len(set(studies)) == 2
    norms = [
        {word for run in told(lab, one)["runs"] for word in run["overrides"] if "norm=" in word} for one in studies
    ]
    assert sorted(map(sorted, norms)) == [["norm=layernorm", "norm=rmsnorm"], ["norm=layernorm", "norm=scalenorm"]]


def test_values_to_sweep_over_do_not_go_with_a_study(here, study):
    refused = study("seed=1,2")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "'seed=1,2' has several values" in refused.stderr
