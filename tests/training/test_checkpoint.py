"""Checkpoints that are damaged, missing, ahead of the metrics, or half written."""

import logging
import shutil

import pytest
import torch
from safetensors import safe_open

from lab.config import After
from lab.training.checkpoint import KEPT, load_newest, save_checkpoint, thin_out
from training.folders import assert_same, steps, the_run

TENSORS = {"model.w": torch.arange(6.0).reshape(2, 3), "optim.w.step": torch.tensor(7.0)}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_is_loaded(tmp_path):
    folder = tmp_path / "checkpoint"
    bf16 = {"b": torch.randn(3, 5).bfloat16(), "empty": torch.zeros(0), "turned": torch.arange(6).reshape(2, 3).T}
    save_checkpoint(folder, TENSORS | bf16, 7)
    tensors, step = load_newest(folder, most_steps=7)
    assert step == 7
    assert tensors.keys() == TENSORS.keys() | bf16.keys()
    assert all(torch.equal(tensors[name], value) for name, value in (TENSORS | bf16).items())
    assert all(tensors[name].dtype == value.dtype for name, value in (TENSORS | bf16).items())


def test_the_last_two_are_kept(tmp_path):
    for step in (1, 5, 10, 123):
        save_checkpoint(tmp_path, TENSORS, step)
    assert KEPT == 2
    assert names(tmp_path) == ["step-00000010.safetensors", "step-00000123.safetensors"]


def test_one_ahead_of_a_run_that_went_back_is_removed(tmp_path):
    for step in (10, 15, 12):
        save_checkpoint(tmp_path, TENSORS, step)
    assert names(tmp_path) == ["step-00000010.safetensors", "step-00000012.safetensors"]


def test_none(tmp_path):
    assert load_newest(tmp_path / "checkpoint", most_steps=10) is None


def test_any_flipped_bit_is_seen(tmp_path, caplog):
    save_checkpoint(tmp_path, TENSORS, 7)
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        found = load_newest(tmp_path, most_steps=100)
        if found is not None:  # spaces that pad the header, and the like
            assert found[1] == 7
            assert found[0].keys() == TENSORS.keys()
            assert all(torch.equal(found[0][name], value) for name, value in TENSORS.items())
    path.write_bytes(data)
    assert load_newest(tmp_path, most_steps=7) is not None


def test_any_cut_is_seen(tmp_path):
    save_checkpoint(tmp_path, TENSORS, 7)
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        assert load_newest(tmp_path, most_steps=7) is None


@pytest.mark.slow
def test_only_safetensors(train):
    folder = train("checkpoint.after=all").folder / "checkpoint"
    assert names(folder) == ["step-00000015.safetensors", "step-00000020.safetensors"]
    for path in folder.iterdir():
        with safe_open(path, framework="pt") as file:
            assert file.metadata().keys() == {"step", "sha256"}
    suffixes = {path.suffix for path in folder.parent.rglob("*") if path.is_file()}
    assert suffixes == {".json", ".jsonl", ".log", ".safetensors"}


@pytest.mark.parametrize("after", After)
def test_thinned_out(tmp_path, after):
    for step in (5, 10):
        save_checkpoint(tmp_path, TENSORS, step)
    thin_out(tmp_path, after)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    thin_out(tmp_path, after)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    assert len(before) == {After.all: 2, After.weights: 1, After.none: 0}[after]
    found = load_newest(tmp_path, most_steps=10)
    if after is After.none:
        assert found is None
        return
    tensors, step = found
    assert step == 10
    assert torch.equal(tensors["model.w"], TENSORS["model.w"])
    assert (tensors.keys() == TENSORS.keys()) == (after is After.all)


def test_of_a_damaged_newest_one_the_one_before_is_kept(tmp_path, caplog):
    for step in (5, 10):
        save_checkpoint(tmp_path, TENSORS, step)
    flip(tmp_path / "step-00000010.safetensors", -1)
    thin_out(tmp_path, After.weights)
    assert names(tmp_path) == ["step-00000005.safetensors"]
    assert caplog.text.count("is damaged") == 1
    flip(tmp_path / "step-00000005.safetensors", -1)
    thin_out(tmp_path, After.weights)
    assert names(tmp_path) == ["step-00000005.safetensors"]
    assert "there is none before" in caplog.text


def test_training_does_not_go_on_from_weights_alone(tmp_path, caplog):
    for step in (5, 10):
        save_checkpoint(tmp_path, TENSORS, step)
        thin_out(tmp_path, After.weights)
    save_checkpoint(tmp_path, TENSORS, 15)
    assert load_newest(tmp_path, most_steps=14, complete_below=20) is None
    assert "step-00000010.safetensors holds weights alone" in caplog.text
    assert load_newest(tmp_path, most_steps=14, complete_below=10)[1] == 10
    assert load_newest(tmp_path, most_steps=15, complete_below=20)[1] == 15


def test_a_flipped_bit_does_not_make_weights_a_whole_checkpoint(tmp_path):
    save_checkpoint(tmp_path, TENSORS, 7)
    thin_out(tmp_path, After.weights)
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    for at in range(len(data)):
        for bit in (0, 5):
            path.write_bytes(data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :])
            assert load_newest(tmp_path, most_steps=100, complete_below=8) is None


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path, at=-1000):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A place for a run that was killed in step 13, made by the first test that needs it."""
    return tmp_path_factory.mktemp("killed") / "outputs"


@pytest.fixture
def stopped(killed, kill_at, outputs):
    """The folder of a run that was killed in step 13, with checkpoints of steps 5 and 10."""
    if not killed.exists():
        kill_at(13)
        shutil.copytree(outputs, killed)
    else:
        shutil.copytree(killed, outputs)
    folder = the_run(outputs)
    assert names(folder / "checkpoint") == ["step-00000005.safetensors", "step-00000010.safetensors"]
    return folder


@pytest.fixture
def untouched(elsewhere):
    """The folder of the run that nobody disturbed."""
    return elsewhere()


@pytest.mark.parametrize(
    "damage", [pytest.param(truncate, marks=pytest.mark.slow), flip, pytest.param(empty, marks=pytest.mark.slow)]
)
def test_a_damaged_newest_one_falls_back(stopped, untouched, train, caplog, damage):
    damage(stopped / "checkpoint" / "step-00000010.safetensors")
    train()
    (warning,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert "step-00000010.safetensors is damaged" in warning.getMessage()
    assert "resumed from step 5" in caplog.text
    assert_same(stopped, untouched)


def test_two_damaged_ones_start_again(stopped, untouched, train, caplog):
    for path in (stopped / "checkpoint").iterdir():
        flip(path)
    train()
    assert caplog.text.count("is damaged") == 2
    assert "resumed" not in caplog.text
    assert_same(stopped, untouched)


@pytest.mark.slow
def test_no_checkpoints(stopped, untouched, train, caplog):
    shutil.rmtree(stopped / "checkpoint")
    train()
    assert "resumed" not in caplog.text
    assert_same(stopped, untouched)


def test_temporary_files_of_a_crash_go(stopped, untouched, train):
    for place in (stopped, stopped / "checkpoint"):
        for name in (".step-00000015.safetensors.99999.tmp", ".result.json.4242.tmp"):
            (place / name).write_bytes(b"half")
    train()
    assert_same(stopped, untouched)  # looks for hidden files too


@pytest.mark.parametrize(
    ("kept", "resumed"),
    [(9, 5), pytest.param(10, 10, marks=pytest.mark.slow), pytest.param(3, None, marks=pytest.mark.slow)],
)
def test_lost_lines_fall_back(stopped, untouched, train, caplog, kept, resumed):
    metrics = stopped / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(lines[:kept]))
    train()
    assert ("resumed from step" in caplog.text) == (resumed is not None)
    assert resumed is None or f"resumed from step {resumed}" in caplog.text
    assert_same(stopped, untouched)


def test_a_line_lost_in_the_middle_falls_back(stopped, untouched, train, caplog):
    metrics = stopped / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(lines[:6] + lines[7:]))
    train()
    assert "resumed from step 5" in caplog.text
    assert_same(stopped, untouched)


@pytest.mark.parametrize(
    "torn", ['{"step": 13, "lo', pytest.param('{"step": 13, "loss": 1.0}', marks=pytest.mark.slow)]
)
def test_a_torn_last_line_is_rewound(stopped, untouched, train, torn):
    metrics = stopped / "metrics.jsonl"
    with metrics.open("a") as file:
        file.write(torn)
    assert steps(stopped) == list(range(1, 13))
    train()
    assert_same(stopped, untouched)


@pytest.mark.slow
def test_lost_metrics_and_timing(stopped, untouched, train):
    (stopped / "metrics.jsonl").unlink()
    (stopped / "timing.jsonl").unlink()
    train()
    assert_same(stopped, untouched)


def test_lost_timing_of_a_run_that_only_lacks_its_result(train, untouched):
    folder = train().folder
    for name in ("result.json", "timing.jsonl"):
        (folder / name).unlink()
    assert train().result["tokens_per_s"] is None
    assert_same(folder, untouched)
