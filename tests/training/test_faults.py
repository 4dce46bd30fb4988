"""What else goes wrong around a run: a full cache, flipped bytes, a clock that goes back, a closed terminal.

Outputs on disks that are full or read-only: test_disk.py. Checkpoints that are damaged: test_checkpoint.py.
"""

import ast
import fcntl
import json
import logging
import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import lab as package
from lab.commands import table
from lab.errors import LabError
from lab.runs import attempts
from lab.runs.find import run_ids
from lab.runs.store import RunFolder
from lab.training import summary
from training.folders import assert_same, result_of, resumed_from, steps, the_run, wait_for_step
from training.test_disk import mount
from training.test_resume import LONG, said_in


@pytest.fixture
def small_cache(tmp_path, monkeypatch):
    """A cache on a disk of 200 kB, of which the tokens of the book take half."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small disk needs root and mount")
    folder = tmp_path / "cache"
    folder.mkdir()
    done = mount("-t", "tmpfs", "-o", "size=200k", "tmpfs", folder)
    if done.returncode:
        pytest.skip(f"this container does not allow mount: {done.stderr.strip()}")
    monkeypatch.setenv("LAB_CACHE", str(folder))
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache of this test's own."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def unfinished(cache):
    return [path for path in cache.rglob("*") if path.suffix != ".lock" and path.is_file()]


def test_a_cache_that_is_full(small_cache, train, elsewhere, outputs):
    with pytest.raises(LabError) as caught:
        train()
    place = str(small_cache)
    assert str(caught.value).startswith(f"cannot write the cache at {place}/tokens/")
    assert str(caught.value).endswith(
        f": No space left on device; set LAB_CACHE (now {place}) to a folder that can be written and has room"
    )
    assert unfinished(small_cache) == []
    assert not outputs.exists()
    assert mount("-o", "remount,size=10m", small_cache).returncode == 0
    train()
    assert_same(the_run(outputs), elsewhere())


@pytest.mark.slow
def test_a_cache_that_is_read_only(small_cache, train, outputs):
    assert mount("-o", "remount,ro", small_cache).returncode == 0
    with pytest.raises(LabError, match=r"^cannot write the cache at /.*: Read-only file system; set LAB_CACHE"):
        train()
    assert not outputs.exists()
    assert mount("-o", "remount,rw,size=10m", small_cache).returncode == 0
    train()
    assert mount("-o", "remount,ro", small_cache).returncode == 0
    assert train("seed=2").result["status"] == "done"  # what is there needs no writing


@pytest.mark.slow
@pytest.mark.parametrize("name", ["train.bin", pytest.param("val.bin", marks=pytest.mark.slow)])
def test_flipped_bytes_in_the_cache(own_cache, train, elsewhere, outputs, caplog, name):
    train("seed=2")
    (path,) = own_cache.glob(f"tokens/*/{name}")
    whole = path.read_bytes()
    path.write_bytes(whole[:1000] + bytes([whole[1000] ^ 4]) + whole[1001:])
    caplog.clear()
    folder = train().folder
    (warning,) = (record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
    assert warning == f"cached tokens {path.parent} are damaged ({name} was changed): they are made again"
    assert path.read_bytes() == whole
    assert_same(folder, elsewhere())


@pytest.mark.slow
def test_a_result_that_is_torn_is_made_again(train, elsewhere):
    folder = train().folder
    path = folder / "result.json"
    path.write_bytes(path.read_bytes()[:-200])
    assert not train().was_done
    assert resumed_from(folder) == [20]
    assert_same(folder, elsewhere())


@pytest.mark.slow
def test_a_clock_that_goes_back(monkeypatch, kill_at, train, elsewhere, outputs):
    """Each look at it is an hour earlier than the one before, and files are older than those they were made of."""
    now = [datetime(2030, 1, 1, tzinfo=UTC)]

    def earlier():
        now[0] -= timedelta(hours=1)
        return now[0].isoformat(timespec="seconds")

    monkeypatch.setattr(attempts, "_now", earlier)
    monkeypatch.setattr(time, "time", lambda: now[0].timestamp())
    kill_at(7)
    folder = the_run(outputs)
    for age, path in enumerate(sorted(folder.rglob("*"))):
        os.utime(path, (1e9 - age, 1e9 - age))
    kill_at(13)
    train()
    assert resumed_from(folder) == [5, 10]
    assert_same(folder, elsewhere())
    tries = attempts.attempts(RunFolder(folder))
    assert [(one.number, one.from_step, one.status) for one in tries] == [
        (1, 0, "killed"), (2, 5, "killed"), (3, 10, "done"),
    ]  # fmt: skip
    assert tries[2].ended < tries[2].started < tries[1].started < tries[0].started
    assert run_ids() == [folder.name]


@pytest.mark.slow
def test_nothing_takes_time_by_the_clock_on_the_wall():
    """The clock is only written down for people: time is measured by one that cannot be set."""
    found = set()
    for path in Path(package.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                call = f"{node.value.id}.{node.attr}"
                if call in ("time.time", "time.time_ns", "time.localtime", "datetime.now", "datetime.utcnow"):
                    found.add((path.stem, call))
    assert {call for _, call in found} <= {"datetime.now"}, found
    assert {stem for stem, _ in found} <= {"attempts", "manifest"}, found


@pytest.mark.slow
def test_another_commit_between_two_starts(monkeypatch, kill_at, train, outputs, caplog, capsys):
    def under(commit):
        monkeypatch.setattr(summary, "commit", lambda: commit)

    def env():
        return json.loads((folder / "result.json").read_text())["env"]

    under("aaaa")
    kill_at(7)
    folder = the_run(outputs)
    assert (env()["commit"], env()["earlier"]) == ("aaaa", [])
    under("bbbb")
    kill_at(12)
    under("cccc")
    train()
    assert env()["commit"] == "cccc"
    assert [made["commit"] for made in env()["earlier"]] == ["aaaa", "bbbb"]
    assert "begun with another version, as its table will say: commit aaaa, bbbb, now cccc" in caplog.text
    assert [one.commit for one in attempts.attempts(RunFolder(folder))] == ["aaaa", "bbbb", "cccc"]
    assert table.main([str(outputs)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "warning: runs come from several environments: commit aaaa, bbbb, cccc" in said
    train("fresh=true")
    assert (env()["commit"], env()["earlier"]) == ("cccc", [])


@pytest.mark.slow
def test_another_commit_before_the_first_checkpoint_has_left_no_trace(monkeypatch, kill_at, train, outputs):
    monkeypatch.setattr(summary, "commit", lambda: "aaaa")
    kill_at(4)
    monkeypatch.setattr(summary, "commit", lambda: "bbbb")
    result = train().result
    assert (result["env"]["commit"], result["env"]["earlier"]) == ("bbbb", [])


@pytest.mark.slow
def test_a_hangup_stops_and_saves(start_lab, lab, words, outputs, elsewhere):
    process = start_lab("train", *words(*LONG))
    folder = wait_for_step(outputs, 11)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 129
    (line,) = said_in(err)
    assert line.startswith("lab train: stopped after step ")
    assert result_of(folder)["status"] == "partial"
    assert attempts.attempts(RunFolder(folder))[-1].reason == "stopped by SIGHUP"
    assert lab("train", *words(*LONG)).returncode == 0
    assert_same(folder, elsewhere(*LONG))


@pytest.mark.slow
def test_a_terminal_that_is_closed(words, lab, outputs, elsewhere):
    """The kernel sends SIGHUP, and from then on nothing can be printed."""
    ours, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lab", "train", *words(*LONG)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(terminal)
    folder = wait_for_step(outputs, 11)
    os.close(ours)
    assert process.wait(timeout=60) == 129
    kept = len(steps(folder))
    assert 11 <= kept < 80
    result = result_of(folder)
    assert (result["status"], result["steps_done"]) == ("partial", kept)
    assert not (folder / "lock").exists()
    assert "Traceback" not in (folder / "run.log").read_text()
    assert lab("train", *words(*LONG)).returncode == 0
    assert resumed_from(folder) == [kept]
    assert_same(folder, elsewhere(*LONG))


@pytest.mark.slow
def test_nohup_goes_on(start_lab, words, outputs):
    process = start_lab("train", *words(*LONG), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for_step(outputs, 11)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert result_of(the_run(outputs))["status"] == "done"


@pytest.mark.slow
def test_output_that_goes_to_a_full_disk(words, outputs):
    """The run goes on and says in run.log what it cannot say elsewhere."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lab", "train", *words()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert result_of(the_run(outputs))["status"] == "done"
    assert "done: val loss" in (the_run(outputs) / "run.log").read_text()
