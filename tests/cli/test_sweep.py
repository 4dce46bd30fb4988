"""Sweeps on the command line: what is said in the end, and a run that fails among others."""

import multiprocessing
import os

import pytest

AGAIN = "The same command goes on with what is left"

SMALL = ("data=text", "data.file=text.txt", "tokenizer=byte", "model=tiny", "threads=1", "device=cpu")
HERE = "hydra/launcher=basic"
"""Runs are trained in this process, where they can be tampered with."""
FEW = (*SMALL, "train.steps=2", "train.batch_size=2", "model.n_layers=1", "precision=fp32")


@pytest.fixture
def failing(monkeypatch):
    """Let the run of one seed fail while it trains."""
    from lab.training import run

    def arrange(seed):
        real = run.new_state

        def new_state(config, architecture):
            if config.seed == seed:
                raise RuntimeError("out of luck")
            return real(config, architecture)

        monkeypatch.setattr(run, "new_state", new_state)

    return arrange


def statuses(outputs):
    from lab.runs.store import read_results

    return {record["config"]["seed"]: record["status"] for record in read_results([outputs])[0]}


@pytest.mark.slow
def test_a_sweep_trains_each_combination_once_and_says_so(here, run, outputs):
    status, out, err = run("train", *FEW, "-m", "seed=1,2")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == "2 runs: 2 trained, 0 already done. `lab table` shows them."
    assert statuses(outputs) == {1: "done", 2: "done"}
    status, out, err = run("train", "-m", *FEW, "seed=1,2,3")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == "3 runs: 1 trained, 2 already done. `lab table` shows them."


@pytest.mark.slow
def test_a_run_that_fails_does_not_stop_the_others(here, run, outputs, failing):
    failing(2)
    status, _, err = run("train", *FEW, "-m", "seed=1,2,3", HERE)
    assert status == 1
    failure, summary = err.splitlines()
    assert "out of luck" in failure
    assert "seed=2" in failure
    assert summary == "lab train: 3 runs: 2 trained, 0 already done, 1 failed. `lab table` shows them. " + AGAIN
    assert statuses(outputs) == {1: "done", 2: "failed", 3: "done"}


@pytest.mark.slow
def test_a_single_run_that_fails_says_one_line(here, run, outputs, failing):
    failing(1)
    status, _, err = run("train", *FEW)
    assert (status, err.count("\n")) == (1, 1)
    assert "out of luck" in err
    assert statuses(outputs) == {1: "failed"}


@pytest.mark.slow
def test_a_bug_in_one_run_of_a_sweep_shows_its_traceback_and_counts(here, run, monkeypatch):
    from lab.training import run as training

    real = training.train
    monkeypatch.setattr(training, "train", lambda config, _: 1 / 0 if config.seed == 1 else real(config))
    status, _, err = run("train", *FEW, "-m", "seed=1,2", HERE)
    assert status == 1
    assert "Traceback" in err
    assert "seed=1" in err
    assert err.splitlines()[-1].startswith("lab train: 2 runs: 1 trained, 0 already done, 1 failed.")


def _job(launch, overrides, index, pipe):
    pipe.send((os.getpid(), launch([overrides], index)))


@pytest.mark.slow
def test_failures_come_back_from_a_launcher_of_other_processes(here, run, outputs, failing, monkeypatch):
    from hydra._internal.core_plugins.basic_launcher import BasicLauncher

    real, processes = BasicLauncher.launch, []

    def launch(self, job_overrides, initial_job_idx):
        returned = []
        for index, overrides in enumerate(job_overrides):
            ours, theirs = multiprocessing.Pipe()
            job = lambda jobs, first: real(self, jobs, first)  # noqa: E731
            context = multiprocessing.get_context("fork")
            process = context.Process(target=_job, args=(job, overrides, index, theirs))
            process.start()
            pid, jobs = ours.recv()
            process.join()
            processes.append(pid)
            returned += jobs
        return returned

    failing(2)
    monkeypatch.setattr(BasicLauncher, "launch", launch)
    status, _, err = run("train", *FEW, "-m", "seed=1,2", HERE)
    assert status == 1
    assert (
        err.splitlines()[-1]
        == "lab train: 2 runs: 1 trained, 0 already done, 1 failed. `lab table` shows them. " + AGAIN
    )
    assert statuses(outputs) == {1: "done", 2: "failed"}
    assert len({*processes, os.getpid()}) == 3


@pytest.mark.slow
def test_a_seed_sweep_is_planned_once_a_variant(here, run, monkeypatch):
    from lab.study.sweeper import Sweep
    from lab.training import plan as planning

    planned = []
    real = planning.plan
    monkeypatch.setattr(
        planning, "plan", lambda config, *rest, **here: planned.append(config) or real(config, *rest, **here)
    )
    monkeypatch.setattr(Sweep, "carry_out", lambda self, script: None)
    assert run("train", *FEW, "-m", "attention=mha,mqa", "seed=1,2,3")[0] == 0
    assert [config.attn.name for config in planned] == ["mha", "mqa"]
