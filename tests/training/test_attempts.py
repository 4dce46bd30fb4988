"""What a run folder says of the processes that trained it."""

import os
import signal

import pytest

from lab.errors import LabError, Stopped
from lab.runs.attempts import attempts, note_ending
from lab.runs.store import RunFolder
from training.folders import the_run


def told(outputs):
    found = attempts(RunFolder(the_run(outputs)))
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    assert {one.pid for one in found} == {os.getpid()}
    return [(one.from_step, one.status, one.reason) for one in found]


@pytest.mark.slow
def test_killed_stopped_and_done(kill_at, at_step, monkeypatch, train, outputs):
    kill_at(7)
    assert told(outputs) == [(0, "killed", None)]
    note_ending(RunFolder(the_run(outputs)), "killed by SIGKILL")
    with monkeypatch.context():
        at_step(12, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(Stopped):
            train()
    train()
    ended = [
        (0, "killed", "killed by SIGKILL"),
        (5, "partial", "stopped by SIGTERM"),
        (12, "done", None),
    ]
    assert told(outputs) == ended
    assert train().was_done
    assert told(outputs) == ended
    train("fresh=true")
    assert told(outputs) == [(0, "done", None)]


def test_failed(at_step, train, outputs):
    def fail():
        assert told(outputs) == [(0, "running", None)]
        raise RuntimeError("the roof\nfell in")

    at_step(13, fail)
    with pytest.raises(LabError):
        train()
    assert told(outputs) == [(0, "failed", "RuntimeError: the roof fell in")]


@pytest.mark.slow
def test_a_second_signal(at_step, train, outputs):
    def both():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    at_step(12, both)
    with pytest.raises(KeyboardInterrupt):
        train()
    assert told(outputs) == [(0, "killed", "a second signal while it was being stopped")]


@pytest.mark.slow
def test_diverged(train, outputs):
    result = train("optim.lr=1000", "optim.grad_clip=null", "train.steps=40").result
    assert result["status"] == "diverged"
    assert told(outputs) == [(0, "diverged", result["reason"])]
