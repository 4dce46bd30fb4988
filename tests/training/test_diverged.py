"""Runs whose numbers are no numbers any more: a result, not a failure."""

import json

import pytest
import torch

from lab.training import run
from training.folders import assert_same, result_of, steps

WILD = ("optim.lr=1e30", "optim.grad_clip=null", "schedule.warmup_share=0")


def test_a_huge_rate_diverges(train):
    trained = train(*WILD)
    result = trained.result
    assert result["status"] == "diverged"
    assert result["reason"] in ("loss is not finite at step 2", "grad_norm is not finite at step 2")
    assert (result["final_loss"], result["bits_per_byte"], result["steps_done"]) == (None, None, 2)
    assert result["clipped_share"] is None
    assert steps(trained.folder) == [1, 2]
    last = json.loads((trained.folder / "metrics.jsonl").read_text().splitlines()[-1], parse_constant=pytest.fail)
    assert last["loss"] is None or last["grad_norm"] is None
    again = train(*WILD)
    assert again.was_done
    assert again.result["reason"] == result["reason"]


@pytest.mark.slow
def test_after_the_last_update(train):
    trained = train(*WILD, "train.steps=1")
    assert trained.result["status"] == "diverged"
    assert trained.result["reason"] == "val_loss is not finite after step 1"
    assert (trained.result["early_loss"], trained.result["final_loss"]) == (None, None)
    (line,) = (trained.folder / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["val_loss"] is None


def test_a_run_that_ends_high(train, monkeypatch):
    monkeypatch.setattr("lab.training.summary.diverged", lambda loss, **_: "loss ended high")
    trained = train()
    assert (trained.result["status"], trained.result["reason"]) == ("diverged", "loss ended high")
    assert (trained.result["final_loss"], trained.result["steps_done"]) == (None, 20)
    assert trained.result["early_loss"] is not None


def broken(step):
    """A loss that is not a number from one step on."""
    from lab.training import loop

    real = loop.train_step

    def train_step(config, state, batches, ranks):
        loss, norm, lr = real(config, state, batches, ranks)
        return (loss * float("nan") if state.step >= step else loss), norm, lr

    return train_step


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", [7, *(pytest.param(step, marks=pytest.mark.slow) for step in (None, 1, 3, 16, 17, 20))]
)
def test_reading_16_steps_at_once_leaves_the_same(train, tmp_path, monkeypatch, step):
    folders = []
    if step is not None:
        monkeypatch.setattr("lab.training.loop.train_step", broken(step))
    for at_once in (1, 16):
        monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / str(at_once)))
        real = run.Recorder

        def recorder(*args, steps_at_once, real=real, at_once=at_once, **kwargs):
            return real(*args, steps_at_once=at_once, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(run, "Recorder", recorder)
            folders.append(train("train.checkpoint_every=null").folder)
    assert_same(*folders)
    assert steps(folders[0]) == list(range(1, (step or 20) + 1))
    if step is not None:
        assert result_of(folders[0])["reason"] == f"loss is not finite at step {step}"


@pytest.mark.slow
def test_the_command_says_one_line(lab, words, outputs):
    done = lab("train", *words(*WILD))
    assert (done.returncode, done.stderr) == (0, "")
    assert "  diverged: loss is not finite at step 2\n" in done.stdout or "grad_norm" in done.stdout
    again = lab("train", *words(*WILD))
    assert (again.returncode, again.stderr) == (0, "")
    assert "is done already" in again.stdout


@pytest.mark.slow
def test_a_validation_that_is_no_number(train, monkeypatch):
    """A validation between steps that is not finite ends the run, whatever the training loss says."""
    from lab.training import loop

    real = loop.train_step

    def train_step(config, state, batches, ranks):
        numbers = real(config, state, batches, ranks)
        if state.step == 8:
            with torch.no_grad():
                state.model.final_norm.gain.fill_(float("inf"))
        return numbers

    monkeypatch.setattr(loop, "train_step", train_step)
    trained = train("train.eval_every=8")
    assert trained.result["reason"] == "val_loss is not finite after step 8"
    assert trained.result["early_loss"] is not None
