"""A sweep that is killed outright, in the middle of its second run, and started again with the same command."""

import time

import pytest
from training.folders import assert_same, resumed_from

from lab.runs.metrics import read_lines

pytestmark = pytest.mark.slow

ONE = "hydra.launcher.n_jobs=1"


def begun(outputs, *, runs, steps):
    """Whether so many runs have begun, and the last of them has made so many steps."""
    files = sorted((outputs / "runs").glob("*/metrics.jsonl"), key=lambda file: file.stat().st_ctime)
    return len(files) == runs and len(read_lines(files[-1])) > steps


def test_a_killed_sweep_ends_as_an_untouched_one(start_lab, lab, words, outputs, tmp_path, monkeypatch):
    sweep = ["train", "-m", *words("train.steps=150", "norm=layernorm,rmsnorm", "seed=1,2"), ONE]
    process = start_lab(*sweep)
    deadline = time.monotonic() + 120
    while not begun(outputs, runs=2, steps=10):
        assert time.monotonic() < deadline, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    again = lab(*sweep)
    assert again.returncode == 0, again.stderr
    assert "4 runs: 3 trained, 1 already done" in again.stdout
    assert "0 trained, 4 already done" in lab(*sweep).stdout

    killed = {folder.name: folder for folder in (outputs / "runs").iterdir()}
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "untouched"))
    assert lab(*sweep).returncode == 0
    untouched = {folder.name: folder for folder in (tmp_path / "untouched" / "runs").iterdir()}
    assert killed.keys() == untouched.keys()
    for name, folder in killed.items():
        assert_same(folder, untouched[name])
    (first_step,) = [step for folder in killed.values() for step in resumed_from(folder)]
    assert first_step >= 10
