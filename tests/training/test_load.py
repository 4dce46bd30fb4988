"""Reading a finished run from its folder."""

import json

import pytest
import torch

from lab.config import Device
from lab.data.tokens import prepare
from lab.errors import LabError
from lab.runs.store import RunFolder
from lab.training import load
from lab.training.evaluate import Evaluator
from lab.training.load import find_run, load_model
from lab.training.plan import plan


@pytest.fixture
def run(train, outputs):
    """A run that is done, and its result."""
    trained = train("train.steps=6")
    return RunFolder(trained.folder), trained.result


@pytest.mark.slow
def test_the_model_scores_what_the_run_scored(run, config):
    folder, result = run
    loaded = load_model(folder)
    assert (loaded.step, loaded.result, loaded.model.training) == (6, result | {"schema": 1}, False)
    assert loaded.config == plan(config("train.steps=6")).config
    tokens = prepare(loaded.config.data, loaded.config.tokenizer)
    evaluator = Evaluator(
        tokens.val,
        n_bytes=tokens.bytes["val"],
        seq_len=loaded.config.model.max_seq_len,
        device="cpu",
        precision=loaded.config.precision,
    )
    assert evaluator(loaded.model).loss == result["final_loss"]
    assert loaded.tokenizer.hash == tokens.tokenizer_hash


def test_nothing_is_resolved_again(run, monkeypatch):
    folder, _ = run
    config = json.loads((folder.path / "config.json").read_text())
    config |= {"device": "cuda", "precision": "bf16", "attn_path": "plain", "threads": 7}
    (folder.path / "config.json").write_text(json.dumps(config))
    threads = torch.get_num_threads()
    loaded = load_model(folder)
    assert loaded.config.as_dict() == config
    assert {attn.path for attn in loaded.model.attention()} == {"plain"}
    assert {p.device.type for p in loaded.model.parameters()} == {"cpu"}
    assert torch.get_num_threads() == threads


def test_a_run_older_than_the_keys_of_track_is_loaded(run):
    folder, _ = run
    config = json.loads((folder.path / "config.json").read_text())
    old = config | {"track": {k: v for k, v in config["track"].items() if k not in load.TRACK}}
    assert old != config
    (folder.path / "config.json").write_text(json.dumps(old))
    assert load_model(folder).config.as_dict() == config


def test_a_run_that_stopped_is_loaded_with_a_warning(kill_at, outputs, caplog):
    kill_at(13)
    (folder,) = (outputs / "runs").iterdir()
    loaded = load_model(RunFolder(folder))
    assert (loaded.step, loaded.result["status"]) == (10, "partial")
    assert f"run {folder.name} is partial: taking it at step 10 of 20" in caplog.text


def test_names_of_a_run(run, tmp_path, monkeypatch):
    folder, _ = run
    name = folder.path.name
    for text in (name, name[:5], str(folder.path), f"{folder.path}/", str(folder.path / "result.json")):
        assert find_run(text).path.resolve() == folder.path.resolve(), text
    assert load.find_run is find_run
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "elsewhere"))
    assert find_run(str(folder.path)).path == folder.path.resolve()


def test_runs_that_are_not_there(outputs):
    runs = outputs / "runs"
    with pytest.raises(LabError, match=r"^run 'abc' is not there: no runs in .*; lab train makes one$"):
        find_run("abc")
    for name in ("abc000000000", "abd000000000"):
        (runs / name).mkdir(parents=True)
        (runs / name / "config.json").touch()
    assert find_run("abc").path == runs / "abc000000000"
    with pytest.raises(LabError, match=r"^run 'ab' could be (abc0+, abd0+|abd0+, abc0+): type more of it$"):
        find_run("ab")
    with pytest.raises(LabError, match=r"; did you mean 'abc000000000'\?$"):
        find_run("abc000000001")
    for text in ("zzz", "", ".", str(outputs)):
        with pytest.raises(LabError, match=f"^run '{text}' is neither .*; there are "):
            find_run(text)


def break_result(path):
    (path / "result.json").write_text("{")


def break_config(path):
    (path / "config.json").write_text("{")


def age_config(path):
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"norms": 1}))


def break_tokenizer(path):
    (path / "tokenizer.json").write_text("{}")


def lose_checkpoints(path):
    for file in (path / "checkpoint").iterdir():
        file.unlink()


def widen(path):
    config = json.loads((path / "config.json").read_text())
    config["model"]["dim"] = 64
    (path / "config.json").write_text(json.dumps(config))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_result, "has no result.json that can be read"),
        (break_config, "has no config.json that can be read"),
        (age_config, "is not of this lab: unknown key 'norms'"),
        (break_tokenizer, "tokenizer.json cannot be read: not a tokenizer"),
        (lose_checkpoints, r"keeps no weights: train it again with fresh=true checkpoint\.after=weights$"),
        (widen, "has weights of another model than this lab makes: .*size mismatch"),
    ],
)
def test_damage_is_said_in_one_line(run, damage, message):
    folder, _ = run
    damage(folder.path)
    with pytest.raises(LabError, match=message) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)
    assert folder.path.name in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_device_that_is_not_here(run):
    with pytest.raises(LabError, match=r"^device 'cuda' is not on this machine"):
        load_model(run[0], device=Device.cuda)
