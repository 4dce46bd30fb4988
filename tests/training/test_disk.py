"""Disks that are full or read-only. Root writes through mode 555, so these mount a small tmpfs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.runs.store import read_results
from training.folders import assert_same, result_of, the_run


def mount(*argv):
    return subprocess.run(["mount", *map(str, argv)], capture_output=True, text=True, check=False)


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A disk of 400 kB that holds the outputs."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small disk needs root and mount")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = mount("-t", "tmpfs", "-o", "size=400k", "tmpfs", folder)
    if done.returncode:
        pytest.skip(f"this container does not allow mount: {done.stderr.strip()}")
    monkeypatch.setenv("LAB_OUTPUTS", str(folder))
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> Path:
    """Leave no byte."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while file.write(b"\0" * size):
                    pass
            except OSError:
                continue
    return path


def files(disk):
    return sorted(str(path.relative_to(disk)) for path in disk.rglob("*"))


def test_a_checkpoint_that_does_not_fit(disk, train, elsewhere, capfd):
    filler = disk / "filler"
    filler.write_bytes(b"\0" * 100_000)  # room for one checkpoint, not for three
    with pytest.raises(LabError) as caught:
        train()
    folder = the_run(disk)
    assert str(caught.value) == (
        f"run {folder.name} failed: OSError: No space left on device; see {folder / 'run.log'}"
    )
    assert capfd.readouterr() == ("", "")
    failed = result_of(folder)
    assert (failed["status"], failed["reason"]) == ("failed", "OSError: No space left on device")
    assert failed["steps_done"] >= 5
    assert [path.name for path in folder.rglob(".*")] == []
    assert "Traceback" in (folder / "run.log").read_text()
    assert mount("-o", "remount,size=10m", disk).returncode == 0
    filler.unlink()
    train()
    assert_same(folder, elsewhere())


@pytest.mark.parametrize(
    ("step", "overrides"),
    [
        pytest.param(12, (), id="checkpoint"),
        pytest.param(12, ("train.steps=120", "train.checkpoint_every=10"), id="long", marks=pytest.mark.slow),
        pytest.param(3, ("train.steps=120", "train.checkpoint_every=null"), id="lines", marks=pytest.mark.slow),
    ],
)
def test_a_disk_that_fills_up_on_the_way(disk, at_step, train, elsewhere, capfd, step, overrides):
    assert mount("-o", "remount,size=10m", disk).returncode == 0
    at_step(step, lambda: fill(disk))
    with pytest.raises(LabError, match=r"failed: OSError: No space left on device; see /"):
        train(*overrides)
    assert capfd.readouterr() == ("", "")
    folder = the_run(disk)
    ((result,), damaged) = read_results([disk])
    assert (result["status"], damaged) == ("partial", [])  # nothing more could be written
    assert [path.name for path in folder.rglob(".*")] == []
    (disk / "filler").unlink()
    train(*overrides)
    assert "resumed from step" in (folder / "run.log").read_text() or step < 10
    assert_same(folder, elsewhere(*overrides))


def test_a_full_disk(disk, train, elsewhere, capfd):
    filler = fill(disk)
    with pytest.raises(LabError, match=r"No space left on device.*/disk/runs/"):
        train()
    assert capfd.readouterr() == ("", "")
    assert not list(disk.rglob("result.json"))
    filler.unlink()
    assert mount("-o", "remount,size=10m", disk).returncode == 0
    train()
    assert_same(the_run(disk), elsewhere())


def test_a_read_only_disk(disk, train):
    assert mount("-o", "remount,ro", disk).returncode == 0
    with pytest.raises(LabError) as caught:
        train()
    assert str(caught.value).startswith(f"{disk}/runs/")
    assert str(caught.value).endswith(": cannot be written (Read-only file system); LAB_OUTPUTS sets another place")
    assert files(disk) == []


@pytest.mark.slow
def test_a_disk_that_became_read_only(disk, train, kill_at):
    assert mount("-o", "remount,size=10m", disk).returncode == 0
    kill_at(13)
    (the_run(disk) / "lock").unlink(missing_ok=True)
    before = files(disk)
    assert mount("-o", "remount,ro", disk).returncode == 0
    with pytest.raises(LabError, match=r"^/.*: cannot be written \(Read-only file system\); LAB_OUTPUTS"):
        train()
    assert files(disk) == before
    assert mount("-o", "remount,rw", disk).returncode == 0
    folder = train().folder
    assert mount("-o", "remount,ro", disk).returncode == 0
    again = train()  # a finished run needs no writing
    assert again.was_done
    assert again.folder == folder


def test_outputs_below_a_file(tmp_path, monkeypatch, train):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAB_OUTPUTS", str(tmp_path / "file"))
    with pytest.raises(LabError, match=r"^/.*/file/runs/.*: cannot be written \(Not a directory\); LAB_OUTPUTS"):
        train()


@pytest.mark.slow
def test_the_command_says_one_line(disk, lab, words):
    full = lab("train", *words("model.dim=64"))
    assert full.returncode == 1
    assert full.stderr.count("\n") == 1
    assert full.stderr.startswith("lab train: run ")
    assert "No space left on device" in full.stderr
    assert str(disk) in full.stderr
    mount("-o", "remount,ro", disk)
    refused = lab("train", *words("seed=2"))
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert f"lab train: {disk}/runs/" in refused.stderr
    assert "Read-only file system" in refused.stderr
