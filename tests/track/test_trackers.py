"""What a tracker is told, and that it cannot change a run."""

import json
from dataclasses import dataclass

import pytest

from lab import choices
from lab.errors import LabError
from lab.track import TrackConfig, Tracker
from lab.track.none import Silent


class Listener(Tracker):
    def __init__(self):
        self.steps, self.lines, self.results = [], [], []

    def log(self, step, metrics):
        self.steps.append(step)
        self.lines.append(dict(metrics))

    def finish(self, result):
        self.results.append(result)


@dataclass(frozen=True, kw_only=True)
class Config(TrackConfig):
    listener = Listener()

    def build(self, run_id, config, folder):
        type(self).listener = Listener()
        return type(self).listener


def test_silent(tmp_path):
    assert choices.names("track")[:1] == ["none"]
    tracker = (
        choices.load("track", "none").Config(name="none", layers=False, layers_every=1).build("a", {}, tmp_path)
    )
    assert isinstance(tracker, Silent)
    assert tracker.log(1, {"loss": 1.0}) is None
    assert tracker.finish({}) is None
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def listened(config, monkeypatch):
    """Train with a listener; what it heard and the run's folder."""
    from dataclasses import replace

    from lab.training import run

    def train(*overrides):
        trained = run.train(
            replace(config(*overrides), track=Config(name="listener", layers=False, layers_every=1))
        )
        return Config.listener, trained

    return train


def test_every_step_is_told(listened):
    listener, trained = listened("train.eval_every=10")
    assert listener.steps == list(range(1, 21))
    assert listener.lines == [
        json.loads(line) for line in (trained.folder / "metrics.jsonl").read_text().splitlines()
    ]
    assert listener.results == [trained.result]
    assert trained.result["final_loss"] is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["log", *(pytest.param(method, marks=pytest.mark.slow) for method in ("__init__", "finish"))]
)
def test_one_that_fails_changes_nothing(listened, train, tmp_path, monkeypatch, caplog, method):
    def fail(*args):
        raise ConnectionError("no\nnetwork")

    monkeypatch.setattr(Listener, method, fail)
    trained = listened()[1]
    assert caplog.text.count("tracking stopped, training goes on: ConnectionError: no network\n") == 1
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "elsewhere"))
    silent = train()
    assert trained.folder.name == silent.folder.name
    for name in ("metrics.jsonl", "tokenizer.json"):
        assert (trained.folder / name).read_bytes() == (silent.folder / name).read_bytes()
    assert trained.result["final_loss"] == silent.result["final_loss"]


def test_a_run_that_fails_is_told(listened, monkeypatch):
    def fail(*args):
        raise RuntimeError("the roof fell in")

    monkeypatch.setattr("lab.training.loop.train_step", fail)
    with pytest.raises(LabError):
        listened()
    (result,) = Config.listener.results
    assert (result["status"], result["reason"]) == ("failed", "RuntimeError: the roof fell in")
