"""Sweeps on a real Slurm: arrays, runs that fail or are killed, preemption and time limits."""

import json
import re
import time

import pytest
from training.folders import assert_same, resumed_from, the_run, wait_for_step

from lab.runs.attempts import attempts
from lab.runs.metrics import read_lines
from lab.runs.store import RunFolder

pytestmark = pytest.mark.slow

TIMEOUT_S = 300


def wait_until(true, *, timeout_s=TIMEOUT_S):
    end = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end, f"not so after {timeout_s} s"
        time.sleep(0.1)


@pytest.fixture
def assert_as_untouched(lab, outputs, sweep, tmp_path, monkeypatch):
    """The runs are those of the same sweep in one process, bit for bit."""

    def check(*overrides):
        monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "untouched"))
        done = lab(*sweep(*overrides, launcher="basic"), timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        here = {folder.name: folder for folder in (outputs / "runs").iterdir()}
        there = {folder.name: folder for folder in (tmp_path / "untouched" / "runs").iterdir()}
        assert here.keys() == there.keys()
        for name, folder in here.items():
            assert_same(folder, there[name])

    return check


def test_a_sweep_is_an_array_and_what_is_done_is_not_submitted(lab, sweep, outputs):
    done = lab(*sweep("norm=layernorm,rmsnorm", "hydra.launcher.partition=low"), timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("2 runs: 2 trained, 0 already done.")
    (script,) = outputs.glob("submitit/*/*_submission.sh")
    lines = script.read_text().splitlines()
    assert {"#SBATCH --array=0-1%2", "#SBATCH --partition=low", "#SBATCH --cpus-per-task=1"} <= set(lines)
    assert {"#SBATCH --requeue", "#SBATCH --signal=USR2@120"} <= set(lines)
    again = lab(*sweep("norm=layernorm,rmsnorm"), timeout=TIMEOUT_S)
    assert again.stdout.splitlines()[-1].startswith("2 runs: 0 trained, 2 already done.")
    assert len(list(outputs.glob("submitit/*/*_submission.sh"))) == 1


def test_a_run_that_fails_and_one_that_is_killed_take_no_other_along(lab, sweep, outputs):
    done = lab(*sweep("schedule.fault=none,crash,kill", "on_error=retry:1"), timeout=TIMEOUT_S)
    assert done.returncode == 1
    assert "failed: RuntimeError: out of luck" in done.stdout
    lost = next(line for line in done.stderr.splitlines() if "is gone without a result" in line)
    assert "schedule.fault=kill" in lost
    assert (outputs / "submitit").as_posix() in lost
    assert done.stderr.splitlines()[-1].startswith("lab train: 3 runs: 2 trained, 0 already done, 1 failed.")
    folders = {json.loads((f / "config.json").read_text())["schedule"]["fault"]: f for f in outputs.glob("runs/*")}
    statuses = {fault: RunFolder(folder).result()["status"] for fault, folder in folders.items()}
    assert statuses == {"none": "done", "crash": "failed", "kill": "done"}
    assert {fault: len(attempts(RunFolder(folder))) for fault, folder in folders.items()} == {
        "none": 1,
        "crash": 2,
        "kill": 2,
    }
    assert resumed_from(folders["kill"]) == [10]


@pytest.mark.parametrize("partition", ["low", "graceful"])
def test_a_preempted_run_goes_on_and_ends_as_an_untouched_one(
    start_lab, slurm, sweep, job, outputs, assert_as_untouched, partition
):
    runs = ["schedule.fault=dawdle", "schedule.at=12", "train.steps=300", "train.checkpoint_every=null"]
    process = start_lab(*sweep(*runs, f"hydra.launcher.partition={partition}"))
    number = job(process)
    folder = wait_for_step(outputs, 14, timeout_s=TIMEOUT_S)
    slurm("sbatch", "--partition=high", "--cpus-per-task=2", "--output=/dev/null", "--wrap=sleep 1")
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    assert "Restarts=1" in slurm("scontrol", "show", "job", number)
    (first,) = resumed_from(folder)
    assert first >= 14
    assert_as_untouched(*runs)


def test_a_run_at_its_time_limit_goes_on_and_ends_as_an_untouched_one(
    start_lab, slurm, sweep, job, outputs, assert_as_untouched
):
    runs = ["schedule.fault=dawdle", "schedule.at=12", "train.steps=400", "train.checkpoint_every=null"]
    process = start_lab(*sweep(*runs, "hydra.launcher.timeout_min=1", "hydra.launcher.signal_delay_s=20"))
    number = job(process)
    wait_until(lambda: "Restarts=1" in slurm("scontrol", "show", "job", number))
    slurm("scontrol", "update", f"JobId={number}", "TimeLimit=10")  # a slow machine needs the minute to begin
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    (first,) = resumed_from(the_run(outputs))
    assert first >= 12
    assert_as_untouched(*runs)


def test_a_run_on_two_ranks_goes_back_into_the_queue_as_one(
    start_lab, lab, slurm, sweep, job, outputs, tmp_path, monkeypatch
):
    runs = ["schedule.fault=dawdle", "schedule.at=12", "train.steps=300", "train.checkpoint_every=null"]
    process = start_lab(*sweep(*runs, "hydra.launcher.tasks_per_node=2"))
    number = job(process)
    folder = wait_for_step(outputs, 14, timeout_s=TIMEOUT_S)
    slurm("scancel", "--signal=USR2", number)  # as at the time limit
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    assert "Restarts=1" in slurm("scontrol", "show", "job", number)
    (first,) = resumed_from(folder)
    assert first >= 14
    assert len(list(outputs.glob("submitit/*/*_result.pkl"))) == 2  # of two ranks
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "untouched"))
    assert lab(*sweep(*runs, launcher="basic"), timeout=TIMEOUT_S).returncode == 0
    ours, theirs = (
        read_lines(folder / "metrics.jsonl"),
        read_lines(the_run(tmp_path / "untouched") / "metrics.jsonl"),
    )
    assert len(ours) == len(theirs) == 300
    assert [line["loss"] for line in ours] == pytest.approx([line["loss"] for line in theirs], rel=1e-4)


def test_a_cancelled_job_stays_cancelled_and_its_run_is_saved(start_lab, slurm, sweep, job, outputs):
    process = start_lab(
        *sweep("schedule.fault=dawdle", "schedule.at=12", "train.steps=300", "train.checkpoint_every=null")
    )
    number = job(process)
    folder = wait_for_step(outputs, 14, timeout_s=TIMEOUT_S)
    slurm("scancel", number)
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert f"job {number} is gone without a result" in errors
    assert "JobState=CANCELLED" in slurm("scontrol", "show", "job", number)
    (checkpoint,) = (folder / "checkpoint").iterdir()
    assert int(re.search(r"\d+", checkpoint.name)[0]) >= 14


def test_whoever_stops_waiting_leaves_the_jobs_and_finds_them_done(start_lab, lab, slurm, sweep, job, outputs):
    runs = ["schedule.fault=dawdle", "schedule.at=12", "train.steps=20"]
    process = start_lab(*sweep(*runs))
    number = job(process)
    wait_for_step(outputs, 13, timeout_s=TIMEOUT_S)
    process.terminate()
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 143
    assert f"1 run goes on in Slurm; `scancel {number}` ends what is left" in errors
    again = lab(*sweep(*runs), timeout=TIMEOUT_S)
    assert again.returncode == 0, again.stderr
    assert "1 run: 0 trained, 1 already done" in again.stdout
    wait_until(lambda: "JobState=COMPLETED" in slurm("scontrol", "show", "job", number))


def test_what_slurm_refuses_is_one_line(lab, sweep, outputs):
    done = lab(*sweep("seed=1,2", "hydra.launcher.partition=none_such"), timeout=TIMEOUT_S)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("lab train: the runs cannot be submitted: ")
    assert "invalid partition" in line
