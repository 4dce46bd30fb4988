"""``attempts.jsonl``: which processes trained a run, from which step, and how each of them ended.

Each line is an object with ``attempt``, a number from 1; what the lines of one number say goes together. The first
names the process, the next the step it goes on from, the last how it ended. A process that is killed leaves no last
line; its launcher may add one. Nothing but what is shown to people depends on this file: the clock is in it, and on
a full disk lines are missing.
"""

import json
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lab
from lab.runs.store import RunFolder

KILLED = "killed"
"""How an attempt ended whose process wrote no ending."""

RUNNING = "running"
"""The attempt of the process that holds the run."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One process's work on a run."""

    number: int
    """From 1."""
    host: str
    pid: int
    started: str
    """UTC, ISO 8601; by the clock of the host, so of two attempts the later may have the earlier time."""
    from_step: int | None
    """Updates that were done before; None where the process did not come as far as to know."""
    commit: str | None
    """Of the checkout that lab ran from; None in a wheel."""
    version: str
    """Of lab."""
    ended: str | None
    """As ``started``; None while it goes on, or where nobody saw it end."""
    status: str
    """``running``, ``killed``, or what the run came to be: ``done``, ``diverged``, ``failed``, ``partial``."""
    reason: str | None
    """Why it ended, where that is known."""


@dataclass(frozen=True)
class Recording:
    """The attempt of this process, as it is written down. What cannot be written is left out."""

    file: Path
    number: int

    def from_step(self, step: int) -> None:
        """Note how many updates were done before."""
        _append(self.file, {"attempt": self.number, "from_step": step})

    def end(self, status: str, reason: str | None) -> None:
        """Note how it ended."""
        _append(self.file, _ending(self.number, status, reason))


def begin(folder: RunFolder, *, commit: str | None) -> Recording:
    """Note that this process starts to train a run; its lock must be held."""
    file = _file(folder)
    number = max(_merged(file), default=0) + 1
    process = {"host": socket.gethostname(), "pid": os.getpid(), "started": _now()}
    _append(file, {"attempt": number, **process, "commit": commit, "version": lab.__version__})
    return Recording(file, number)


def note_ending(folder: RunFolder, reason: str, *, pid: int | None = None) -> None:
    """Note for a launcher how a process ended that could not do so itself: ``killed by SIGKILL``.

    Nothing is noted where the last attempt has an ending, or is that of another process than ``pid`` on this host.
    """
    known = _merged(_file(folder))
    if not known:
        return
    number = max(known)
    last = known[number]
    if "status" in last or pid not in (None, last.get("pid")):
        return
    if pid is not None and last.get("host") != socket.gethostname():
        return
    _append(_file(folder), _ending(number, KILLED, reason))


def attempts(folder: RunFolder) -> list[Attempt]:
    """All attempts at a run, in their order; what is not known of one is None, and torn lines are left out."""
    known = _merged(_file(folder))
    return [_attempt(folder, number, known[number], last=number == max(known)) for number in sorted(known)]


def _attempt(folder: RunFolder, number: int, told: Mapping[str, Any], *, last: bool) -> Attempt:
    going_on = "status" not in told and last and folder.is_locked()
    return Attempt(
        number=number,
        host=str(told.get("host", "unknown")),
        pid=told["pid"] if isinstance(told.get("pid"), int) else 0,
        started=str(told.get("started", "unknown")),
        from_step=told.get("from_step"),
        commit=told.get("commit"),
        version=str(told.get("version", "unknown")),
        ended=told.get("ended"),
        status=str(told.get("status", RUNNING if going_on else KILLED)),
        reason=told.get("reason"),
    )


def commits(tries: Iterable[Attempt]) -> list[str]:
    """The commits that trained a run, in their order, each once."""
    return list(dict.fromkeys(one.commit for one in tries if one.commit is not None))


def _file(folder: RunFolder) -> Path:
    return folder.path / "attempts.jsonl"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _ending(number: int, status: str, reason: str | None) -> dict[str, Any]:
    return {"attempt": number, "ended": _now(), "status": status, "reason": reason}


def _merged(file: Path) -> dict[int, dict[str, Any]]:
    """What the whole lines say of each attempt."""
    known: dict[int, dict[str, Any]] = {}
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return known
    for line in text.splitlines():
        with suppress(ValueError):
            told = json.loads(line)
            if isinstance(told, dict) and isinstance(told.get("attempt"), int):
                known.setdefault(told["attempt"], {}).update(told)
    return known


def _append(file: Path, line: Mapping[str, Any]) -> None:
    """Add a line in one write, on a line of its own even after a torn one."""
    with suppress(OSError), file.open("ab+") as lines:
        end = lines.seek(0, os.SEEK_END)
        lines.seek(max(0, end - 1))
        torn = lines.read(1) not in (b"", b"\n")
        lines.write(b"\n" * torn + json.dumps(line).encode() + b"\n")
