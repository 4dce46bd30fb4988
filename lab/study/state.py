"""What has become of the runs of a sweep: read from their folders, so that no list of it can be wrong."""

import json
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lab.runs.attempts import Attempt, attempts
from lab.runs.store import RunFolder

STATUSES = ("done", "diverged", "running", "partial", "failed", "pending")
"""``partial``: begun, and trained by nobody now; ``pending``: not begun."""

ENDED = ("done", "diverged")
"""Statuses of runs that have a result; nothing is left to train."""

TAIL_BYTES = 4096
"""More than a line of metrics takes."""


@dataclass(frozen=True)
class State:
    """Of one run, now."""

    status: str
    """One of ``STATUSES``."""
    step: int
    """Updates done."""
    steps: int | None
    """Updates in all; None where the run has not begun."""
    loss: float | None
    """The final loss of a run that is done, in nats per token; else that of the last training batch."""
    attempts: int
    """How often a process began to train it."""
    host: str | None
    """Where the last of them was."""
    reason: str | None
    """Why it failed, diverged or stopped."""
    seconds: float | None
    """That the last of them took, by the clock of its host, where it came to an end."""


PENDING = State("pending", 0, None, None, 0, None, None, None)


def state(folder: RunFolder) -> State:
    """What has become of the run of a folder, which need not exist."""
    result = folder.result_now()
    if result is None:
        return PENDING
    tries = attempts(folder)
    status = result["status"]
    last = _last_line(folder.metrics) if status not in ENDED else {}
    stopped = tries[-1].reason if tries and status in ("partial", "failed") else None
    reason = result.get("reason") or (stopped if status != "running" else None)
    return State(
        status=status,
        step=last.get("step") or result.get("steps_done") or 0,
        steps=result.get("config", {}).get("train", {}).get("steps"),
        loss=result.get("final_loss") if status in ENDED else last.get("loss"),
        attempts=len(tries),
        host=tries[-1].host if tries else None,
        reason=reason,
        seconds=_seconds(tries[-1]) if tries else None,
    )


def counts(states: Iterable[State]) -> dict[str, int]:
    """How many runs have each status, in the order of ``STATUSES``, without those that none has."""
    found = Counter(state.status for state in states)
    return {status: found[status] for status in STATUSES if found[status]}


def in_words(found: dict[str, int]) -> str:
    """``3 done, 1 running, 2 pending``."""
    return ", ".join(f"{n} {status}" for status, n in found.items())


def _seconds(attempt: Attempt) -> float | None:
    if attempt.ended is None:
        return None
    with suppress(ValueError):
        spent = datetime.fromisoformat(attempt.ended) - datetime.fromisoformat(attempt.started)
        return max(0.0, spent.total_seconds())
    return None


def _last_line(path: Path) -> dict[str, Any]:
    """The last whole line of a file of JSON lines; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            lines = file.read().split(b"\n")[:-1]
        value = json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
