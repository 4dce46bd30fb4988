"""A run that was stopped on its way and started again equals one that was not."""

import json
import os
import signal

import pytest

from lab.errors import LabError, Stopped
from lab.runs.store import RunFolder, read_results
from training.folders import assert_same, result_of, resumed_from, steps, the_run, wait_for_step

VARIANTS = {
    "plain": (),
    "dropout": ("regularization=dropout", "regularization.dropout.attention=0.1", "train.micro_batch_size=2"),
    "decay-and-z": ("regularization=weight_decay", "stability=[qk_norm,z_loss]", "train.eval_every=4"),
    "ngrams": ("data.ngram_rate=0.3", "data.ngram_mask=true"),
    "between-saves": ("train.checkpoint_every=3", "schedule=linear"),
}


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(overrides, id=name, marks=() if name == "dropout" else pytest.mark.slow)
        for name, overrides in VARIANTS.items()
    ],
)
def test_after_a_kill(kill_at, train, elsewhere, outputs, overrides):
    kill_at(13, *overrides)
    folder = the_run(outputs)
    assert steps(folder) == list(range(1, 13))
    assert result_of(folder)["status"] == "running"
    ((result,), damaged) = read_results([outputs])
    assert (result["status"], damaged) == ("partial", [])
    train(*overrides)
    assert resumed_from(folder) == [12 if "train.checkpoint_every=3" in overrides else 10]
    assert_same(folder, elsewhere(*overrides))


@pytest.mark.slow
def test_twice(kill_at, train, elsewhere, outputs):
    kill_at(7)
    kill_at(18)
    train()
    folder = the_run(outputs)
    assert resumed_from(folder) == [5, 15]
    assert_same(folder, elsewhere())


@pytest.mark.slow
def test_before_the_first_checkpoint(kill_at, train, elsewhere, outputs):
    kill_at(4)
    assert steps(the_run(outputs)) == [1, 2, 3]
    train()
    assert resumed_from(the_run(outputs)) == []
    assert_same(the_run(outputs), elsewhere())


@pytest.mark.slow
def test_between_the_last_checkpoint_and_the_result(monkeypatch, train, elsewhere, outputs):
    class Killed(BaseException):
        pass

    def kill(*args):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("lab.training.summary.closing", kill)
        with pytest.raises(Killed):
            train()
    assert result_of(the_run(outputs))["status"] == "running"
    train()
    assert resumed_from(the_run(outputs)) == [20]
    assert_same(the_run(outputs), elsewhere())


@pytest.mark.slow
def test_the_distance_of_checkpoints_may_change(kill_at, train, elsewhere, outputs):
    kill_at(13)
    kill_at(15, "train.checkpoint_every=4")
    train("train.checkpoint_every=null")
    assert resumed_from(the_run(outputs)) == [10, 12]
    folder, untouched = the_run(outputs), elsewhere()
    assert (folder / "metrics.jsonl").read_bytes() == (untouched / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_signal_is_noted_and_the_run_saved(at_step, train, elsewhere, outputs, number, status):
    handlers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    at_step(12, lambda: os.kill(os.getpid(), number))
    with pytest.raises(Stopped, match=r"^stopped after step 12 of 20$") as caught:
        train()
    assert 128 + caught.value.signal_number == status
    assert {n: signal.getsignal(n) for n in handlers} == handlers
    folder = the_run(outputs)
    stopped = result_of(folder)
    assert (stopped["status"], stopped["reason"], stopped["steps_done"]) == ("partial", None, 12)
    assert not (folder / "lock").exists()
    train()
    assert resumed_from(folder) == [12]
    assert_same(folder, elsewhere())


@pytest.mark.slow
def test_a_signal_in_the_last_step_stops_what_would_follow(at_step, train, elsewhere, outputs):
    at_step(20, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Stopped, match="had ended"):
        train()
    assert train().was_done
    assert_same(the_run(outputs), elsewhere())


def test_a_second_signal_acts_at_once(at_step, train, outputs):
    def both():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    at_step(12, both)
    with pytest.raises(KeyboardInterrupt) as caught:
        train()
    assert not isinstance(caught.value, Stopped)
    ((result,), _) = read_results([outputs])
    assert result["status"] == "partial"


def test_done_is_done(train, outputs, caplog):
    first = train()
    before = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*") if path.name != "lock"}
    caplog.clear()
    again = train()
    assert again.was_done
    assert "is done already, nothing to train (fresh=true starts again)" in caplog.text
    assert json.dumps(again.result) == json.dumps(RunFolder(first.folder).result())
    assert {path: path.stat().st_mtime_ns for path in first.folder.rglob("*")} == before


@pytest.mark.slow
def test_fresh_starts_again(train, kill_at, elsewhere, outputs):
    first = train()
    before = (first.folder / "result.json").stat()
    second = train("fresh=true")
    assert not second.was_done
    assert second.folder == first.folder
    assert (first.folder / "result.json").stat().st_mtime_ns > before.st_mtime_ns
    assert_same(second.folder, elsewhere())
    kill_at(13, "fresh=true")
    train()
    assert resumed_from(first.folder) == [10]
    assert_same(first.folder, elsewhere())


def test_failed_is_tried_again(at_step, train, elsewhere, outputs):
    def fail():
        raise RuntimeError("the roof\nfell in")

    at_step(13, fail)
    with pytest.raises(LabError, match=r"failed: RuntimeError: the roof fell in; see .*run\.log$"):
        train()
    folder = the_run(outputs)
    failed = result_of(folder)
    assert (failed["status"], failed["steps_done"]) == ("failed", 12)
    assert failed["reason"] == "RuntimeError: the roof fell in"
    assert failed["final_loss"] is None
    assert steps(folder) == list(range(1, 13))
    assert "Traceback" in (folder / "run.log").read_text()
    train()
    assert resumed_from(folder) == [10]
    assert_same(folder, elsewhere())


@pytest.mark.slow
def test_a_failure_says_one_line(at_step, words, capsys, outputs):
    from lab import cli

    def fail():
        raise RuntimeError("the roof\nfell in")

    at_step(13, fail)
    with pytest.raises(SystemExit) as left:
        cli.main(["train", *words()])
    assert left.value.code == 1
    out, err = capsys.readouterr()
    folder = the_run(outputs)
    assert err == f"lab train: run {folder.name} failed: RuntimeError: the roof fell in; see {folder / 'run.log'}\n"
    assert "Traceback" not in out
    assert "Traceback" in (folder / "run.log").read_text()


@pytest.mark.slow
def test_a_run_that_is_held_is_refused(train, outputs):
    folder = RunFolder(train().folder)
    (folder.path / "result.json").unlink()
    with (
        folder.locked(),
        pytest.raises(LabError, match=rf"^run {folder.path.name} is being trained by process {os.getpid()} on "),
    ):
        train()
    train()


def said_in(err):
    """The lines on standard error that are not progress of a machine that is slow today."""
    return [line for line in err.splitlines() if not line.startswith("run ")]


LONG = ("train.steps=80", "train.eval_every=null")
"""Long enough to be caught half-way."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (signal.SIGTERM, 143, "stopped after step"),
        (signal.SIGINT, 130, "stopped after step"),
        (signal.SIGKILL, -9, None),
    ],
)
def test_a_process_that_is_stopped(start_lab, lab, words, outputs, elsewhere, number, status, said):
    process = start_lab("train", *words(*LONG))
    folder = wait_for_step(outputs, 11)
    ((result,), _) = read_results([outputs])
    assert result["status"] == "running"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == status
    lines = said_in(err)
    assert len(lines) == (0 if said is None else 1)
    assert said is None or lines[0].startswith(f"lab train: {said} ")
    kept = len(steps(folder))
    assert 11 <= kept < 80
    assert result_of(folder)["status"] == ("running" if said is None else "partial")
    ((result,), _) = read_results([outputs])
    assert result["status"] == "partial"
    done = lab("train", *words(*LONG))
    assert (done.returncode, said_in(done.stderr)) == (0, [])
    (step,) = resumed_from(folder)
    assert step == kept if said else (step % 5 == 0 and kept - 10 < step <= kept)
    assert f"resumed from step {step}\n" in done.stdout
    assert_same(folder, elsewhere(*LONG))


@pytest.mark.slow
def test_another_process_is_refused_in_one_line(start_lab, lab, words, outputs):
    process = start_lab("train", *words("train.steps=100000"))
    folder = wait_for_step(outputs, 1)
    refused = lab("train", *words("train.steps=100000"))
    assert refused.returncode == 1
    assert f"run {folder.name} is being trained by process {process.pid} on " in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert process.poll() is None
    wait_for_step(outputs, len(steps(folder)) + 1)  # still going on
    process.kill()
    process.communicate()
    seen = len(steps(folder))
    assert (folder / "lock").exists()  # and no obstacle:
    process = start_lab("train", *words("train.steps=100000"))
    end = wait_for_step(outputs, seen + 2)
    assert end == folder
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err.startswith("lab train: stopped after step ")
