import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.files import remove_temporaries, write_atomically, write_json
from lab.runs.store import RunFolder, read_results

HOLD = """
import sys, time
from pathlib import Path
from lab.runs.store import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "a")


@pytest.fixture
def holder(folder):
    """A process that holds the run."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, folder.path], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_one_process_at_a_time(folder, holder):
    assert folder.is_locked()
    with pytest.raises(LabError) as caught, folder.locked():
        raise AssertionError
    assert str(caught.value).startswith(f"run a is being trained by process {holder.pid} on ")
    assert "\n" not in str(caught.value)
    assert folder.is_locked()


def test_the_lock_of_a_dead_process_is_no_obstacle(folder, holder):
    holder.kill()
    holder.wait()
    assert (folder.path / "lock").read_text().startswith(f"process {holder.pid} on ")
    assert not folder.is_locked()
    with folder.locked():
        assert (folder.path / "lock").read_text().startswith(f"process {os.getpid()} on ")
        assert folder.is_locked()
    assert not (folder.path / "lock").exists()
    assert not folder.is_locked()


def test_the_lock_goes_with_an_error(folder):
    with pytest.raises(ZeroDivisionError), folder.locked():
        1 / 0  # noqa: B018
    assert not (folder.path / "lock").exists()


def test_looking_never_gets_in_the_way(folder):
    """A reader holds the lock for an instant; a run that starts then is not refused."""
    folder.path.mkdir(parents=True)
    stop = threading.Event()

    def look():
        while not stop.is_set():
            folder.is_locked()

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for _ in range(50):
            with folder.locked():
                pass
    finally:
        stop.set()
        looker.join()


def write(folder: RunFolder, **values):
    folder.path.mkdir(parents=True)
    folder.write_result({"id": folder.path.name, "status": "done", "config": {}, **values})


def test_status_of_a_run_in_progress(folder, holder, tmp_path):
    folder.write_result({"id": "a", "status": "running", "config": {}})
    ((result,), _) = read_results([tmp_path])
    assert result["status"] == "running"
    holder.kill()
    holder.wait()
    ((result,), _) = read_results([tmp_path])
    assert result["status"] == "partial"
    assert folder.result()["status"] == "running"


def test_a_run_that_ends_while_it_is_looked_at(folder, tmp_path, monkeypatch):
    write(folder, status="running")

    def ended(self):
        self.write_result({"id": "a", "status": "done", "config": {}})
        return False

    monkeypatch.setattr(RunFolder, "is_locked", ended)
    ((result,), _) = read_results([tmp_path])
    assert result["status"] == "done"


def test_each_run_once(tmp_path):
    for name in "abc":
        write(RunFolder(tmp_path / "runs" / name))
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "runs" / "a")
    results, damaged = read_results([tmp_path, tmp_path / "runs", tmp_path / "runs" / "a", link])
    assert [result["id"] for result in results] == ["a", "b", "c"]
    assert damaged == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}', '{"schema": 1}', "\xff"])
def test_damaged_results_are_named(tmp_path, text):
    write(RunFolder(tmp_path / "good"))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "result.json").write_bytes(text.encode("latin-1"))
    results, damaged = read_results([tmp_path])
    assert [result["id"] for result in results] == ["good"]
    assert damaged == [tmp_path / "bad" / "result.json"]


def test_result_is_strict_json(folder):
    write(folder, final_loss=1.5)
    before = (folder.path / "result.json").read_bytes()
    assert json.loads(before)["schema"] == 1
    with pytest.raises(ValueError, match="JSON compliant"):
        folder.write_result({"final_loss": float("nan")})
    assert (folder.path / "result.json").read_bytes() == before
    assert [path.name for path in folder.path.iterdir()] == ["result.json"]


def test_a_reader_never_sees_half(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"n": -1})
    stop = threading.Event()
    seen = []

    def read():
        while not stop.is_set():
            seen.append(json.loads(path.read_text())["n"])

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(100):
        write_json(path, {"n": n, "padding": "x" * 20_000})
    stop.set()
    reader.join()
    assert seen == sorted(seen)


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "x", b"1")
    assert list(tmp_path.iterdir()) == []


def test_only_temporaries_are_removed(tmp_path: Path):
    for name in (".x.json.1.tmp", "x.json", ".hidden", "x.tmp"):
        (tmp_path / name).touch()
    remove_temporaries(tmp_path)
    remove_temporaries(tmp_path / "nowhere")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "x.json", "x.tmp"]
