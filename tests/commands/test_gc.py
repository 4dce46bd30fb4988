"""`lab gc` from the command line."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from lab import cli
from lab.runs.store import RunFolder
from lab.training import loop
from lab.training.load import load_model

HOLD = """
import sys
from pathlib import Path
from lab.data import cache
from lab.runs.store import RunFolder
place = Path(sys.argv[2])
with RunFolder(place).locked() if sys.argv[1] == "run" else cache.locked(place):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def gc(capsys):
    """Run `lab gc`: the lines it prints."""

    def call(*argv):
        capsys.readouterr()
        status = cli._run(["gc", *argv])
        output = capsys.readouterr()
        assert (status, output.err) == (0, ""), output.err
        return output.out.splitlines()

    return call


@pytest.fixture
def holding():
    """Hold a run or an entry of the cache in another process."""
    held = []

    def hold(kind, place):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, kind, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        held.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in held:
        process.kill()
        process.communicate()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of this test's own, in which a process was killed while it wrote an entry."""
    folder = tmp_path / "cache"
    entry = folder / "tokens" / "abc"
    entry.mkdir(parents=True)
    (entry / "train.bin").write_bytes(b"1234")
    (folder / "tokens" / "abc.lock").touch()
    half = folder / "tokens" / f".abc.{'0' * 32}"
    half.mkdir()
    (half / "train.bin").write_bytes(b"\0" * 2**20)
    (folder / "tokens" / ".abc.json.12.tmp").write_bytes(b"of another entry")
    monkeypatch.setenv("LAB_CACHE", str(folder))
    return folder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(folder):
    return sorted(path.name for path in (folder / "checkpoint").iterdir())


def as_before(folder):
    """Make a run look as if it was killed before it cleared up, or trained before there was checkpoint.after."""
    config = json.loads((folder / "config.json").read_text())
    del config["checkpoint"]
    (folder / "config.json").write_text(json.dumps(config))


def test_nothing_is_there(gc, outputs):
    assert gc() == ["nothing to remove"]
    assert gc("--dry-run", "--weights") == ["nothing to remove"]
    assert not outputs.exists()


@pytest.mark.slow
def test_a_run_of_an_earlier_version(gc, train):
    folder = train("checkpoint.after=all").folder
    as_before(folder)
    before = contents(folder)
    head, row, total, end = gc("--dry-run")
    assert head.split() == ["run", "status", "what", "goes", "MiB"]
    assert row.startswith(f"{folder.name}  done    older checkpoints, optimizer's state  0.")
    assert total.split() == ["total", row.split()[-1]]
    assert end == "nothing was removed: --dry-run"
    assert contents(folder) == before
    weights = [p.clone() for p in load_model(RunFolder(folder)).model.parameters()]

    head, done, total = gc()
    assert head.split() == ["run", "status", "what", "went", "MiB"]
    assert done.startswith(f"{folder.name}  done    older checkpoints, optimizer's state")
    assert float(done.split()[-1]) == pytest.approx(float(row.split()[-1]), abs=0.02)
    after = contents(folder)
    assert after.keys() == before.keys() - {"checkpoint/step-00000015.safetensors"}
    assert [name for name in after if after[name] != before[name]] == ["checkpoint/step-00000020.safetensors"]
    for a, b in zip(weights, load_model(RunFolder(folder)).model.parameters(), strict=True):
        assert a.equal(b)
    assert gc() == ["nothing to remove"]
    assert contents(folder) == after
    assert train().was_done


@pytest.mark.slow
def test_what_was_to_be_kept_is_kept(gc, train):
    folder = train("checkpoint.after=all").folder
    before = contents(folder)
    assert gc() == ["nothing to remove"]
    assert contents(folder) == before


@pytest.mark.slow
def test_a_run_that_is_not_done_is_left_alone(gc, train, outputs, monkeypatch):
    real = loop.train_step

    def killed_in_step_13(config, state, *rest):
        if state.step == 12:
            raise SystemExit  # as sudden as kill -9: nobody catches it
        return real(config, state, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "train_step", killed_in_step_13)
        with pytest.raises(SystemExit):
            train()
    (folder,) = (outputs / "runs").iterdir()
    (folder / "lock").write_text("process 1 on nowhere")  # as a kill -9 leaves it
    (folder / "checkpoint" / ".step-00000015.safetensors.77.tmp").write_bytes(b"\0" * 2**20)
    before = contents(folder)
    _, row, _, _ = gc("--dry-run", "--weights")
    assert row.startswith(f"{folder.name}  partial  half-written files, lock of a dead process  1.00")
    assert contents(folder) == before
    gc("--weights")
    assert before.keys() - contents(folder).keys() == {"lock", "checkpoint/.step-00000015.safetensors.77.tmp"}
    assert names(folder) == ["step-00000005.safetensors", "step-00000010.safetensors"]
    train()
    assert "resumed from step 10" in (folder / "run.log").read_text()


@pytest.mark.slow
def test_a_run_that_is_held_is_left_alone(gc, train, holding):
    folder = train("checkpoint.after=all").folder
    as_before(folder)
    process = holding("run", folder)
    before = contents(folder)
    for argv in ([], ["--dry-run"], ["--weights"]):
        assert gc(*argv) == ["nothing to remove", "left alone: 1 run that a process trains now"]
    assert contents(folder) == before
    process.kill()
    process.communicate()
    assert "lock of a dead process" in gc("--dry-run")[1]
    gc()
    assert not (folder / "lock").exists()
    assert names(folder) == ["step-00000020.safetensors"]


@pytest.mark.slow
def test_weights_that_nobody_starts_from_go_when_asked(gc, train):
    source = train().folder
    child = train("norm=layernorm", f"init_from={source}").folder
    assert gc() == ["nothing to remove"]
    lines = gc("--weights")
    assert [line.split()[0] for line in lines[:-1]] == ["run", child.name, "total"]
    assert lines[-1] == f"weights kept, for runs start from them: {source.name}"
    assert (names(source), names(child)) == (["step-00000020.safetensors"], [])
    assert train("norm=layernorm", f"init_from={source}").was_done


@pytest.mark.slow
def test_a_damaged_checkpoint_is_not_made_worse(gc, train, caplog):
    folder = train("checkpoint.after=all").folder
    as_before(folder)
    newest = folder / "checkpoint" / "step-00000020.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    gc()
    assert "is damaged" in caplog.text
    assert names(folder) == ["step-00000015.safetensors"]
    assert load_model(RunFolder(folder)).step == 15


def test_the_cache(gc, cache, holding):
    before = contents(cache)
    process = holding("entry", cache / "tokens" / "abc")
    assert gc() == ["nothing to remove"]
    process.kill()
    process.communicate()
    assert gc("--dry-run")[1].split() == ["cache", "half-written", "files", "1.00"]
    assert contents(cache) == before
    gc()
    assert before.keys() - contents(cache).keys() == {f"tokens/.abc.{'0' * 32}/train.bin"}
    assert not (cache / "tokens" / f".abc.{'0' * 32}").exists()
    assert gc() == ["nothing to remove"]


@pytest.mark.slow
def test_a_folder_that_is_read_only(train, tmp_path, capsys):
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a disk read-only needs root and mount")
    folder = train("checkpoint.after=all").folder
    as_before(folder)
    if subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False).returncode:
        pytest.skip("this container does not allow mount")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
        before = contents(folder)
        capsys.readouterr()
        assert cli._run(["gc"]) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith(f"lab gc: {folder}: cannot be written (Read-only file system)")
        assert contents(folder) == before
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
