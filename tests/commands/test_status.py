"""Studies told by `lab status`, and trained again by `lab retry` and `lab resume`."""

import json

import pytest

from lab import cli
from lab.commands import status as status_command
from lab.commands import train
from lab.paths import runs_dir
from lab.runs.store import RunFolder
from lab.study.cell import Cell
from lab.study.manifest import Manifest


@pytest.fixture(autouse=True)
def outputs(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "outputs"))


STATUSES = {"aa1": "done", "ab2": "failed", "ba3": "diverged", "bb4": "running"}


@pytest.fixture
def study():
    made = Manifest("norms", "01234567", ("study=norms", "tier=smoke"), {}, "2026-01-01T00:00:00+00:00", 6)
    cells = [Cell("rmsnorm", (f"seed={i}",), seed=i) for i in range(5)]
    made = made.with_stage("baseline", cells, [*STATUSES, "cc5"])
    made.write()
    for name, status in STATUSES.items():
        run = RunFolder(runs_dir() / name)
        run.path.mkdir(parents=True)
        reason = "out of luck" if status == "failed" else None
        run.write_result({"id": name, "status": status, "final_loss": 4.0, "reason": reason, "config": {}})
    return made


@pytest.fixture
def lab(capsys):
    def call(*argv):
        status = cli._run(list(argv))
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture
def commands(monkeypatch):
    """What would have been trained."""
    given = []
    monkeypatch.setattr(train, "main", lambda argv: given.append(argv) or 0)
    return given


def test_an_overview_and_one_study(lab, study):
    status, out, _ = lab("status")
    assert status == 0
    row = " ".join(out.splitlines()[2].split())
    assert row == "norms-01234567 2026-01-01 00:00 6 1 done, 1 diverged, 1 partial, 1 failed, 2 pending"
    status, out, _ = lab("status", "norms")
    assert status == 0
    head, command, *rows = [line for line in out.splitlines() if line]
    assert head == "norms-01234567: 1 done, 1 diverged, 1 partial, 1 failed, 2 pending"
    assert command == "asked 2026-01-01T00:00:00+00:00: lab train study=norms tier=smoke"
    assert any(row.startswith("ab2") and "failed" in row and "out of luck" in row for row in rows)
    assert rows[-1].startswith("ab2: see ")


def test_of_many_runs_those_are_listed_that_need_a_look(lab, study, monkeypatch):
    every = lab("status", "norms")[1]
    monkeypatch.setattr(status_command, "MANY", 2)
    out = lab("status", "norms")[1]
    listed = [line.split()[0] for line in out.splitlines() if line.startswith((*STATUSES, "cc5"))]
    assert listed == ["ab2", "ba3", "bb4", "ab2:"]
    assert out.splitlines()[0] == every.splitlines()[0]
    assert out.splitlines()[-1] == "not listed: 1 done, 1 pending; --all lists every run"
    whole = [line.rstrip() for line in lab("status", "norms", "--all")[1].splitlines()]
    assert whole == [line.rstrip() for line in every.splitlines()]  # though not set by rich


def test_json(lab, study):
    facts = json.loads(lab("status", "norms", "--format", "json")[1])
    assert facts["counts"] == {"done": 1, "diverged": 1, "partial": 1, "failed": 1, "pending": 2}
    assert [run["status"] for run in facts["runs"]] == ["done", "failed", "diverged", "partial", "pending"]
    assert [one["study"] for one in json.loads(lab("status", "--format", "json")[1])] == ["norms-01234567"]


def test_nothing_there(lab):
    for command in (["status"], ["status", "x"], ["resume", "x"], ["retry", "x"]):
        status, _, err = lab(*command)
        assert (status, err.count("\n")) == (1, 1)
        assert "no studies in" in err


def test_resume_gives_the_command_again(lab, study, commands):
    assert lab("resume", "norms")[1] == "lab train study=norms tier=smoke\n"
    assert commands == [["study=norms", "tier=smoke"]]


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ([], ['hydra.sweeper.only=["ab2","bb4"]']),
        (["--failed"], ['hydra.sweeper.only=["ab2","bb4"]']),
        (["--diverged"], ['hydra.sweeper.only=["ba3"]', "hydra.sweeper.fresh=true"]),
        (["ab", "bb"], ['hydra.sweeper.only=["ab2","bb4"]']),
        (["aa1"], ['hydra.sweeper.only=["aa1"]', "hydra.sweeper.fresh=true"]),
    ],
)
def test_retry(lab, study, commands, words, extra):
    assert lab("retry", "norms", *words)[0] == 0
    assert commands == [["study=norms", "tier=smoke", *extra]]


@pytest.mark.parametrize("word", ["a", "xyz"])
def test_retry_of_a_run_that_is_not_one(lab, study, commands, word):
    status, _, err = lab("retry", "norms", word)
    assert (status, err.count("\n"), commands) == (1, 1, [])
    assert f"run '{word}'" in err
