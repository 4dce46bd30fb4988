"""What stays of a run's checkpoints when it has ended: ``checkpoint.after``."""

import json
import logging

import pytest
import torch

from lab.config import RunConfig
from lab.errors import LabError, Stopped
from lab.runs.store import RunFolder
from lab.training import endings
from lab.training.checkpoint import load_newest
from lab.training.load import load_model
from lab.training.plan import plan
from training.folders import assert_same, result_of, resumed_from, the_run


def names(folder):
    return sorted(path.name for path in (folder / "checkpoint").iterdir())


def held(folder):
    """The tensors of the newest checkpoint, and how many of them are not weights."""
    tensors, _ = load_newest(folder / "checkpoint", most_steps=99)
    return tensors, sum(not name.startswith("model.") for name in tensors)


@pytest.mark.slow
def test_weights_alone_are_kept(train, elsewhere):
    folder, whole = train().folder, elsewhere("checkpoint.after=all")
    assert folder.name == whole.name  # what is kept is no part of a run's identity
    assert (names(folder), len(names(whole))) == (["step-00000020.safetensors"], 2)
    weights, others = held(folder)
    everything, many = held(whole)
    assert (others, many > 0) == (0, True)
    assert all(torch.equal(value, everything[name]) for name, value in weights.items())
    ours, theirs = (load_model(RunFolder(path)) for path in (folder, whole))
    assert ours.step == theirs.step == 20
    for a, b in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
def test_none_are_kept(train, config):
    trained = train("checkpoint.after=none")
    folder = trained.folder
    assert names(folder) == []
    again = train()
    assert again.was_done
    message = (
        f"run {folder.name} keeps no weights (checkpoint.after=none): "
        "train it again with fresh=true checkpoint.after=weights"
    )
    with pytest.raises(LabError) as caught:
        load_model(RunFolder(folder))
    assert str(caught.value) == message
    with pytest.raises(LabError) as caught:
        plan(config(f"init_from={folder}"))
    assert str(caught.value) == f"init_from: {message}"
    assert train("fresh=true", "checkpoint.after=weights").folder == folder
    assert load_model(RunFolder(folder)).step == 20


@pytest.mark.slow
def test_a_run_that_has_not_ended_keeps_everything(kill_at, train, outputs, elsewhere):
    kill_at(13, "checkpoint.after=none")
    folder = the_run(outputs)
    assert names(folder) == ["step-00000005.safetensors", "step-00000010.safetensors"]
    assert held(folder)[1] > 0
    train()
    assert resumed_from(folder) == [10]
    assert names(folder) == ["step-00000020.safetensors"]
    assert_same(folder, elsewhere())


@pytest.mark.slow
@pytest.mark.parametrize("after", ["none", "weights"])
def test_a_diverged_run(train, after):
    diverging = ("optim.lr=1000", "optim.grad_clip=null", "train.steps=40", f"checkpoint.after={after}")
    trained = train(*diverging)
    assert trained.result["status"] == "diverged"
    if after == "none":
        assert names(trained.folder) == []
    else:
        assert (len(names(trained.folder)), held(trained.folder)[1]) == (1, 0)
        assert load_model(RunFolder(trained.folder)).result["status"] == "diverged"


@pytest.mark.slow
@pytest.mark.parametrize("after", [pytest.param("none", marks=pytest.mark.slow), "weights"])
def test_a_kill_after_the_result_loses_nothing(monkeypatch, train, elsewhere, after):
    class Killed(BaseException):
        pass

    def kill(*args):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(endings, "thin_out", kill)
        with pytest.raises(Killed):
            train(f"checkpoint.after={after}")
    trained = train()
    assert trained.was_done
    assert len(names(trained.folder)) == 2  # until lab gc comes by
    assert load_model(RunFolder(trained.folder)).step == 20
    result = result_of(trained.folder)
    assert result["config"].pop("checkpoint") == {"after": after}
    other = result_of(elsewhere())
    del other["config"]["checkpoint"]
    assert result == other


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), pytest.param(Stopped("stopped", 15), marks=pytest.mark.slow)],
    ids=["full", "stopped"],
)
def test_what_goes_wrong_in_thinning_out_costs_no_result(monkeypatch, train, caplog, error):
    def fail(path, data):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("lab.training.checkpoint._write", _later(20, fail))
        if isinstance(error, OSError):
            assert train().result["status"] == "done"
            (warning,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
            assert "keeps all of its checkpoints (No space left on device): lab gc" in warning.getMessage()
        else:
            with pytest.raises(Stopped):
                train()
    trained = train()
    assert trained.was_done
    assert load_model(RunFolder(trained.folder)).step == 20


def _later(step, action):
    """``_write`` up to the checkpoint of a step, and something else in its stead after that."""
    from lab.training.checkpoint import _write

    done = []

    def write(path, tensors, header):
        if done:
            action(path, tensors)
        _write(path, tensors, header)
        if header["step"] == str(step):
            done.append(True)

    return write


@pytest.mark.slow
def test_only_the_result_is_lost(train, elsewhere):
    folder = train().folder
    (folder / "result.json").unlink()
    train()
    assert resumed_from(folder) == [20]  # nothing is left to train, so weights are enough
    assert_same(folder, elsewhere())


@pytest.mark.slow
def test_a_run_of_an_earlier_version(train):
    folder = train().folder
    path = folder / "config.json"
    values = json.loads(path.read_text())
    assert values.pop("checkpoint") == {"after": "weights"}
    assert RunConfig.decode(values).as_dict() == json.loads(path.read_text())
    path.write_text(json.dumps(values))
    assert load_model(RunFolder(folder)).step == 20
