import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime

import pytest

import lab
from lab.runs.attempts import Attempt, attempts, begin, commits, note_ending
from lab.runs.store import RunFolder


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    return RunFolder(tmp_path)


def file_of(folder):
    return folder.path / "attempts.jsonl"


def elsewhere(folder, code="pass"):
    """Begin an attempt in another process, which ends without a word; its process id."""
    program = f"""
from pathlib import Path
from lab.runs.attempts import begin
from lab.runs.store import RunFolder
recording = begin(RunFolder(Path({str(folder.path)!r})), commit="c")
{code}
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    assert process.wait() == 0
    return process.pid


def test_nothing_was_tried(folder):
    assert attempts(folder) == []
    note_ending(folder, "killed by SIGKILL")
    assert not file_of(folder).exists()


def test_one_that_ended(folder):
    before = datetime.now(UTC).replace(microsecond=0)
    recording = begin(folder, commit="0123")
    recording.from_step(30)
    recording.end("done", None)
    (one,) = attempts(folder)
    assert one == Attempt(
        number=1,
        host=socket.gethostname(),
        pid=os.getpid(),
        started=one.started,
        from_step=30,
        commit="0123",
        version=lab.__version__,
        ended=one.ended,
        status="done",
        reason=None,
    )
    assert before <= datetime.fromisoformat(one.started) <= datetime.fromisoformat(one.ended) <= datetime.now(UTC)


def test_one_that_was_killed_and_one_that_goes_on(folder):
    pid = elsewhere(folder, "recording.from_step(0)")
    with folder.locked():
        begin(folder, commit=None)
        first, second = attempts(folder)
    assert (first.pid, first.from_step, first.status, first.ended) == (pid, 0, "killed", None)
    assert (second.pid, second.from_step, second.status, second.commit) == (os.getpid(), None, "running", None)
    assert [one.status for one in attempts(folder)] == ["killed", "killed"]  # nobody holds the run any more


def test_a_launcher_says_how_it_died(folder):
    pid = elsewhere(folder)
    note_ending(folder, "killed by SIGKILL", pid=pid + 1)
    assert attempts(folder)[-1].reason is None
    note_ending(folder, "killed by SIGKILL", pid=pid)
    (one,) = attempts(folder)
    assert (one.status, one.reason, one.ended is None) == ("killed", "killed by SIGKILL", False)
    note_ending(folder, "something else")
    assert attempts(folder) == [one]
    begin(folder, commit=None)
    note_ending(folder, "time limit of the job")
    assert [one.reason for one in attempts(folder)] == ["killed by SIGKILL", "time limit of the job"]


def test_a_launcher_on_another_host_says_nothing_of_a_process_of_this_number(folder):
    file_of(folder).write_text(json.dumps({"attempt": 1, "host": "another", "pid": 77}) + "\n")
    note_ending(folder, "killed by SIGKILL", pid=77)
    assert attempts(folder)[0].reason is None
    note_ending(folder, "killed by SIGKILL")
    assert attempts(folder)[0].reason == "killed by SIGKILL"


@pytest.mark.slow
@pytest.mark.parametrize("kept", range(0, 300, 7))
def test_a_torn_line_costs_no_other(folder, kept):
    begin(folder, commit="a").end("partial", "stopped by SIGTERM")
    (first,) = attempts(folder)
    recording = begin(folder, commit="b")
    recording.from_step(5)
    data = file_of(folder).read_bytes()
    at = data.index(b'{"attempt": 2')
    file_of(folder).write_bytes(data[: at + kept])
    begin(folder, commit="c").end("done", None)
    found = attempts(folder)
    assert found[0] == first
    assert (found[-1].commit, found[-1].status) == ("c", "done")
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    assert len(found) in (2, 3)


@pytest.mark.parametrize("line", ["", "[]", "1", "null", "{}", '{"attempt": "x"}', "\x00\xff", '{"attempt": 1}'])
def test_strange_lines(folder, line):
    file_of(folder).write_bytes(line.encode("latin1") + b"\n")
    begin(folder, commit="c").end("done", None)
    assert attempts(folder)[-1].status == "done"


def test_a_file_that_cannot_be_written(folder):
    file_of(folder).mkdir()
    recording = begin(folder, commit=None)
    recording.from_step(1)
    recording.end("done", None)
    assert attempts(folder) == []


def test_commits(folder):
    for commit in ("a", "b", "a", None):
        begin(folder, commit=commit)
    assert commits(attempts(folder)) == ["a", "b"]
