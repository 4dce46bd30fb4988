import os
import pty
import threading
import time

import pytest

from lab import progress as module
from lab.progress import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def work(clock, *, steps, seconds, done=0):
    with progress("run abc", total=steps, done=done) as bar:
        for step in range(done + 1, steps + 1):
            clock[0] += seconds
            bar.update(step, f"loss {step}")


def test_nothing_for_less_than_two_seconds(clock, capsys):
    work(clock, steps=100, seconds=0.019)
    assert capsys.readouterr().err == ""


def test_only_the_end_of_a_short_one(clock, capsys):
    work(clock, steps=10, seconds=0.5)
    assert capsys.readouterr().err == "run abc  10/10  loss 10  5 s\n"


def test_a_line_every_ten_seconds(clock, capsys):
    work(clock, steps=40, seconds=1)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "run abc  10/40  loss 10  ETA 30 s",
        "run abc  20/40  loss 20  ETA 20 s",
        "run abc  30/40  loss 30  ETA 10 s",
        "run abc  40/40  loss 40  40 s",
    ]


def test_what_was_done_before_does_not_count_as_speed(clock, capsys):
    work(clock, steps=40, seconds=1, done=20)
    assert capsys.readouterr().err.splitlines()[0] == "run abc  30/40  loss 30  ETA 10 s"


def test_no_escape_codes_when_not_a_terminal(clock, capsys):
    work(clock, steps=40, seconds=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in err
    assert "\r" not in err


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    master, slave = pty.openpty()
    seen = bytearray()

    def read():
        while True:
            try:
                data = os.read(master, 4096)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            seen.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(slave, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        assert stream.isatty()
        with progress("run abc", total=4) as bar:
            for step in range(1, 5):
                bar.update(step, f"loss {step}")
                time.sleep(0.05)
    reader.join(timeout=10)
    os.close(master)
    text = seen.decode()
    assert "run abc" in text
    assert "━" in text
    assert "4/4" in text
    assert "loss 4" in text
    assert "ETA" in text
    assert "\x1b[?25h" in text  # the cursor is there again
