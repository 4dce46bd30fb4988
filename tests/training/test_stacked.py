"""Runs trained in a stack, from their configurations to their folders, against the same runs one by one."""

import json
import logging
import os
import signal
from dataclasses import replace

import pytest

from lab.errors import Held, LabError, Stopped
from lab.runs.store import RunFolder
from lab.training import stacked
from lab.training.run import Trained
from lab.training.stack import graph
from training.conftest import Killed
from training.folders import result_of, resumed_from, steps

SEEDS = [("seed=1",), ("seed=2",), ("seed=3", "optim.lr=1e-2")]
WILD = ("optim.lr=1e30", "optim.grad_clip=null", "schedule.warmup_share=0")


@pytest.fixture
def train_stacked(config):
    """Train small runs in a stack in this process."""
    logger = logging.getLogger("lab")
    level = logger.level
    logger.setLevel(logging.DEBUG)
    yield lambda runs=SEEDS: stacked.train_stacked([(config(*own), None) for own in runs])
    logger.setLevel(level)


@pytest.fixture
def at_update(monkeypatch):
    """Have something done once, in place of the update that follows a number of others in the run of a seed."""

    def arrange(step, seed, action):
        real, pending = stacked.update, [action]

        def update(config, state, batches):
            if (state.step, config.seed) == (step, seed) and pending:
                pending.pop()()
            return real(config, state, batches)

        monkeypatch.setattr(stacked, "update", update)

    return arrange


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def assert_alike(folder, alone, *, tolerance=5e-6):
    """Two folders hold the same run but for rounding."""
    ours, theirs = result_of(folder), result_of(alone)
    assert ours.pop("stacked") != theirs.pop("stacked")
    for key in ("loss", "grad_norm", "lr", "val_loss"):
        found, wanted = ([line.get(key, 0.0) for line in metrics(one)] for one in (folder, alone))
        assert found == pytest.approx(wanted, rel=tolerance, abs=0), key
    for key in ("status", "id", "config", "hashes", "steps_done", "tokens", "threads", "ranks", "reason"):
        assert ours[key] == theirs[key], key


@pytest.mark.slow
def test_two_seeds(train_stacked, elsewhere, config):
    runs = [(), ("seed=2",)]
    for own, came in zip(runs, train_stacked(runs), strict=True):
        assert not came.was_done
        assert_alike(came.folder, elsewhere(*own))
        assert came.result["stacked"] == [2]
        assert (came.result["tokens_per_s"], came.result["peak_memory_mib"]) == (None, None)
        times = [json.loads(line) for line in (came.folder / "timing.jsonl").read_text().splitlines()]
        assert [line["stacked"] for line in times] == [2] * 20
        log = (came.folder / "run.log").read_text()
        assert log.count("in a stack of 2") == log.count("done: val loss") == 1  # and nothing of the other


@pytest.mark.slow
def test_several_things_differ(train_stacked, elsewhere):
    decay = "regularization=weight_decay"
    runs = [
        ("stability=z_loss", decay),
        ("stability=z_loss", decay, "stability.z_loss.weight=0.1", "train.eval_every=7"),
        (
            "stability=z_loss",
            decay,
            "regularization.weight_decay.rate=0.5",
            "optim=lion",
            "seed=4",
            "track.layers=true",
        ),
    ]
    for own, came in zip(runs, train_stacked(runs), strict=True):
        assert_alike(came.folder, elsewhere(*own))
        assert came.result["stacked"] == [3]


@pytest.mark.slow
def test_what_is_done_is_found(train_stacked, train):
    first = train("seed=2")
    before = (first.folder / "metrics.jsonl").read_bytes()
    assert [came.was_done for came in train_stacked()] == [False, True, False]
    assert (first.folder / "metrics.jsonl").read_bytes() == before
    assert all(came.was_done for came in train_stacked())


@pytest.mark.slow
def test_one_that_diverges_leaves_the_others_unharmed(train_stacked, elsewhere):
    runs = [("seed=1",), (*WILD, "seed=2"), ("seed=3",)]
    one, wild, other = train_stacked(runs)
    assert wild.result["status"] == "diverged"
    assert wild.result["steps_done"] < 20
    first = metrics(elsewhere(*WILD, "seed=2"))[0]["loss"]
    assert metrics(wild.folder)[0]["loss"] == pytest.approx(first, rel=1e-6)
    for own, came in (("seed=1", one), ("seed=3", other)):
        assert_alike(came.folder, elsewhere(own))
        times = [json.loads(line) for line in (came.folder / "timing.jsonl").read_text().splitlines()]
        assert times[0]["stacked"] == 3
        assert times[-1]["stacked"] == 2


@pytest.mark.slow
def test_one_that_fails_leaves_the_others_unharmed(train_stacked, elsewhere, at_update):
    def fail():
        raise RuntimeError("out of luck")

    at_update(6, 2, fail)
    one, failed, other = train_stacked()
    assert isinstance(failed, LabError)
    assert "out of luck" in str(failed)
    assert_alike(one.folder, elsewhere("seed=1"))
    assert_alike(other.folder, elsewhere("seed=3", "optim.lr=1e-2"))
    one, again, other = train_stacked()
    assert (one.was_done, again.was_done, other.was_done) == (True, False, True)
    assert resumed_from(again.folder) == [5]
    assert again.result["stacked"] == [3, 1]
    assert (again.result["tokens_per_s"], again.result["peak_memory_mib"]) == (None, None)
    assert_alike(again.folder, elsewhere("seed=2"))


@pytest.mark.slow
def test_one_that_another_process_trains_is_left_to_it(train_stacked, config, outputs):
    held = stacked.plan(config("seed=2")).run_id
    with RunFolder(outputs / "runs" / held).locked():
        one, other, last = train_stacked()
    assert isinstance(other, Held)
    assert isinstance(one, Trained)
    assert isinstance(last, Trained)


@pytest.mark.slow
def test_after_a_kill_a_stack_is_what_an_untouched_one_is(train_stacked, at_update, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setenv("LAB_OUTPUTS", str(tmp_path / "untouched"))
        untouched = [came.folder for came in train_stacked()]

    def kill():
        raise Killed

    at_update(12, 2, kill)
    with pytest.raises(Killed):
        train_stacked()
    for folder, came in zip(untouched, train_stacked(), strict=True):
        assert resumed_from(came.folder) == [10]
        assert (came.folder / "metrics.jsonl").read_bytes() == (folder / "metrics.jsonl").read_bytes()
        assert result_of(came.folder) == result_of(folder)


@pytest.mark.slow
def test_a_signal_saves_all_of_them(train_stacked, at_update, monkeypatch, tmp_path, outputs):
    at_update(6, 1, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Stopped) as stop:
        train_stacked()
    assert (stop.value.signal_number, stop.value.runs) == (signal.SIGTERM, 3)
    for folder in (outputs / "runs").iterdir():
        assert (result_of(folder)["status"], steps(folder)) == ("partial", list(range(1, 8)))
        assert max(path.stem for path in (folder / "checkpoint").iterdir()) == "step-00000007"
    for came in train_stacked():
        assert resumed_from(came.folder) == [7]
        assert came.result["status"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("own", "why"),
    [
        pytest.param(("regularization=dropout",), "noise is drawn", id="noise"),
        pytest.param(("compile=true",), "compile=false stacks", id="compiled"),
    ],
)
def test_what_cannot_be_stacked_is_trained_one_by_one(train_stacked, elsewhere, caplog, monkeypatch, own, why):
    monkeypatch.setattr("lab.training.state.compile_model", lambda model: None)
    runs = [(*own, f"seed={seed}") for seed in (1, 2)]
    with caplog.at_level("WARNING", logger="lab"):
        trained = train_stacked(runs)
    (line,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith("2 runs cannot be stacked and are trained one after another: ")
    assert why in line
    for one, came in zip(runs, trained, strict=True):
        assert came.result["stacked"] == [1]
        assert (came.folder / "metrics.jsonl").read_bytes() == (elsewhere(*one) / "metrics.jsonl").read_bytes()


def test_what_shares_a_graph(config):
    base = config("stability=z_loss")
    z_loss = base.stability["z_loss"]
    inside = [
        replace(base, precision="bf16"),
        replace(base, model=replace(base.model, n_layers=2)),
        replace(base, norm=replace(base.norm, eps=1e-3)),
        replace(base, stability={"z_loss": replace(z_loss, variant="max_logit")}),
        replace(base, train=replace(base.train, batch_size=8)),
        replace(base, train=replace(base.train, steps=8)),
    ]
    outside = [
        replace(base, seed=9),
        replace(base, optim=replace(base.optim, lr=1.0)),
        replace(base, stability={"z_loss": replace(z_loss, weight=3.0)}),
        replace(base, train=replace(base.train, eval_every=8)),
    ]
    assert {graph(one) for one in outside} == {graph(base)}
    assert len({graph(one) for one in [base, *inside]}) == 7
