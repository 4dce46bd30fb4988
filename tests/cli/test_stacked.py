"""Sweeps and studies under ``hydra/launcher=stacked``."""

import json
import os
import signal
import time

import pytest
from training.folders import result_of, resumed_from, steps

pytestmark = pytest.mark.slow

STACKED = ("hydra/launcher=stacked", "hydra.launcher.n_jobs=1")


def losses(outputs):
    results = [result_of(folder) for folder in (outputs / "runs").iterdir()]
    return {result["id"]: result["final_loss"] for result in results}


def test_the_same_runs_as_by_the_pool(lab, words, outputs, tmp_path, monkeypatch):
    sweep = ["train", "-m", *words("seed=1,2", "optim.lr=1e-3,3e-3", "norm=rmsnorm,layernorm")]
    done = lab(*sweep, *STACKED, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("8 runs: 8 trained, 0 already done.")
    stacked = losses(outputs)
    assert {tuple(result_of(folder)["stacked"]) for folder in (outputs / "runs").iterdir()} == {(4,)}
    assert "8 done" in lab("status").stdout
    table = lab("table", "--format", "json")
    assert table.returncode == 0
    assert '"tokens_per_s": null' in table.stdout

    again = lab(*sweep, *STACKED, timeout=300)
    assert again.stdout.splitlines()[-1].startswith("8 runs: 0 trained, 8 already done.")

    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "pool"))
    assert lab(*sweep, timeout=300).returncode == 0
    alone = losses(tmp_path / "pool")
    assert stacked.keys() == alone.keys()
    for run, loss in stacked.items():
        assert loss == pytest.approx(alone[run], rel=1e-5)


def test_a_study(lab, words, outputs):
    done = lab(
        "train", "study=norms", "tier=smoke", "accept_mde=true", *words("train.steps=8"), *STACKED, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert {json.loads(file.read_text())["status"] for file in outputs.glob("runs/*/result.json")} == {"done"}
    assert lab("table", "norms").returncode == 0


def test_a_signal_saves_all_and_the_same_command_goes_on(start_lab, lab, words, outputs):
    sweep = ["train", "-m", *words("train.steps=400", "train.checkpoint_every=null", "seed=1,2,3"), *STACKED]
    process = start_lab(*sweep)
    wait_for(outputs, 3)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM
    assert errors.splitlines()[-1].startswith("lab train: stopped; 3 runs were being trained")
    assert "Traceback" not in errors
    reached = {folder: steps(folder)[-1] for folder in (outputs / "runs").iterdir()}
    assert max(reached.values()) - min(reached.values()) <= 1  # it comes in the middle of an update of all
    assert lab(*sweep, timeout=500).returncode == 0
    for folder, step in reached.items():
        assert resumed_from(folder) == [step]
        assert result_of(folder)["status"] == "done"


def test_a_killed_worker_costs_the_steps_since_a_checkpoint(start_lab, lab, words, outputs):
    sweep = ["train", "-m", *words("train.steps=400", "train.checkpoint_every=20", "seed=1,2,3"), *STACKED]
    process = start_lab(*sweep)
    folders = wait_for(outputs, 3, step=30)
    holder = (folders[0] / "lock").read_text().split()[1]
    os.kill(int(holder), signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert errors.count("killed by SIGKILL") == 1
    assert "3 failed" in errors.splitlines()[-1]
    done = lab(*sweep, timeout=500)
    assert done.returncode == 0, done.stderr
    for folder in folders:
        assert resumed_from(folder)[0] >= 20
        assert steps(folder) == list(range(1, 401))


def test_a_wrong_size(lab, words):
    done = lab("train", "-m", *words("seed=1,2"), "hydra/launcher=stacked", "hydra.launcher.max_stack=0")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("lab train: hydra.launcher.max_stack 0 must be > 0")


def wait_for(outputs, count, step=3):
    """The folders of runs that have made some steps, once there are so many."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        found = [file.parent for file in outputs.glob("runs/*/metrics.jsonl") if len(steps(file.parent)) >= step]
        if len(found) == count:
            return found
        time.sleep(0.01)
    raise AssertionError("they do not get there")
