"""What `lab generate` prints."""

import json
import os
import signal

import pytest
import torch

import lab.training.generate
from lab.commands import generate
from lab.completion import candidates
from lab.config import Device
from lab.errors import LabError
from lab.training.load import find_run, load_model

pytestmark = pytest.mark.slow


@pytest.fixture
def run(train):
    """The id of a run that is done."""
    return train("train.steps=5").folder.name


@pytest.fixture
def printed(capsys, run):
    def call(*argv):
        capsys.readouterr()
        assert generate.main([run, "--device", "cpu", *argv]) == 0
        return tuple(capsys.readouterr())

    return call


def test_greedy_text_is_the_same_without_the_cache(printed):
    """Further than the run was trained for."""
    out, err = printed("--prompt", "The Union", "--tokens", "60", "--temperature", "0")
    assert err == ""
    assert out.startswith("The Union")
    assert len(out) == 60 + len("The Union\n")
    again = printed("--prompt", "The Union", "--tokens", "60", "--temperature", "0", "--no-cache", "--seed", "3")
    assert again == (out, "")


def test_draws_by_seed(printed):
    short = ("--prompt", "The", "--no-stop", "--tokens", "20")
    first, _ = printed(*short)
    assert printed(*short, "--seed", "0")[0] == first
    assert printed(*short, "--seed", "1")[0] != first
    assert printed(*short, "--top-p", "0.5")[0] != first
    assert printed(*short, "--top-k", "1") == printed(*short, "--temperature", "0")


def test_an_empty_prompt_is_the_start_of_a_text(printed, run, monkeypatch):
    seen = []
    real = lab.training.generate.generate

    def spied(model, prompt, *args, **kwargs):
        seen.append(prompt)
        return real(model, prompt, *args, **kwargs)

    monkeypatch.setattr("lab.training.generate.generate", spied)
    printed("--tokens", "1")
    printed("--tokens", "1", "--prompt", "é")
    assert seen == [[256], [0xC3, 0xA9]]


def test_the_end_of_a_text_is_the_end(printed, monkeypatch):
    monkeypatch.setattr("lab.training.generate.generate", lambda *args, **kwargs: iter([97, 98, 256, 99]))
    assert printed("--prompt", "x") == ("xab\n", "")
    assert printed("--prompt", "x", "--no-stop") == ("xab<|endoftext|>c\n", "")


def test_learned_positions_end_with_one_line(train, capsys):
    name = train("position=learned", "train.steps=2").folder.name
    call = [name[:6], "--prompt", "x" * 30, "--device", "cpu", "--no-stop"]
    capsys.readouterr()
    assert generate.main(call) == 0
    assert capsys.readouterr().err == (
        "lab generate: ended after 3 of 200 tokens: position=learned has none beyond model.max_seq_len 32\n"
    )
    assert generate.main([*call, "--tokens", "3"]) == 0
    assert capsys.readouterr().err == ""
    with pytest.raises(LabError, match=r"^the prompt has 33 tokens, and the model has positions for 32$"):
        generate.main([*call, "--prompt", "x" * 33])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--temperature", "-1"], r"^temperature -1.0 must be >= 0$"),
        (["--tokens", "0"], r"^tokens 0 must be >= 1$"),
        (["--prompt", "\udcff"], r"^--prompt is not UTF-8$"),
    ],
)
def test_values_that_are_refused(run, capsys, argv, message):
    capsys.readouterr()
    with pytest.raises(LabError, match=message):
        generate.main([run, *argv])
    assert capsys.readouterr().out == ""


def test_runs_that_cannot_be_taken(run, train, capsys):
    with pytest.raises(LabError, match=f"^run 'zz' is neither .* {run}$"):
        generate.main(["zz"])
    with pytest.raises(SystemExit):
        generate.main([])
    assert capsys.readouterr().err.endswith("lab generate: RUN is missing\n")
    for file in (find_run(run).checkpoints).iterdir():
        file.unlink()
    with pytest.raises(LabError, match="keeps no weights: train it again with fresh=true"):
        generate.main([run])


def test_completion_knows_the_runs(run, monkeypatch):
    assert candidates("lab generate ") == [run]
    assert candidates(f"lab generate {run[:3]}") == [run]
    assert candidates("lab generate ./") == []
    assert candidates("lab generate x --dev") == ["--device"]
    assert candidates("lab generate x --device ") == sorted(Device)


def test_an_interrupt_ends_the_line(run, monkeypatch, capsys):
    def interrupted(*args, **kwargs):
        yield 97
        os.kill(os.getpid(), signal.SIGINT)
        yield 98

    monkeypatch.setattr("lab.training.generate.generate", interrupted)
    capsys.readouterr()
    with pytest.raises(KeyboardInterrupt):
        generate.main([run, "--prompt", "x"])
    assert capsys.readouterr().out in ("xa\n", "xab\n")


def test_a_trained_model_is_loaded_and_not_a_new_one(run, printed):
    """The likeliest byte after some text, by the weights that the run's result tells of."""
    loaded = load_model(find_run(run))
    (ids,) = loaded.tokenizer.encode_batch(["the "])
    with torch.no_grad():
        best = int(loaded.model.logits(torch.from_numpy(ids.astype("int64"))[None])[0, -1].argmax())
    out, _ = printed("--prompt", "the ", "--tokens", "1", "--temperature", "0")
    assert out == f"the {loaded.tokenizer.decode([best])}\n"
    assert json.loads((find_run(run).path / "result.json").read_text())["status"] == "done"
