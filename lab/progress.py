"""Progress of anything that takes more than two seconds: a bar on a terminal, plain lines elsewhere."""

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

LINE_EVERY_S = 10.0
"""Seconds between two lines when the output is not a terminal."""


class Bar(Protocol):
    """What a piece of work reports to."""

    def update(self, done: int, note: str = "") -> None:
        """Say how much is done, and in a few words how it goes."""


_hidden = False


def hide() -> None:
    """Show no progress in this process: another one tells how its work goes."""
    global _hidden
    _hidden = True


@contextmanager
def hidden() -> Iterator[None]:
    """Show no progress of what is done inside: something around it tells how it goes."""
    global _hidden
    before, _hidden = _hidden, True
    try:
        yield
    finally:
        _hidden = before


def let_go_of_terminal() -> None:
    """Send to nowhere what would go to a terminal that is lost, where writing fails."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(nowhere, descriptor)
    os.close(nowhere)


class _Nothing:
    def update(self, done: int, note: str = "") -> None:
        pass


class _Lines:
    def __init__(self, label: str, total: int, done: int) -> None:
        self.label, self.total, self.start = label, total, done
        self.began = self.said = time.monotonic()

    def update(self, done: int, note: str = "") -> None:
        now = time.monotonic()
        if now - self.said < LINE_EVERY_S and done < self.total:
            return
        if done >= self.total and now - self.began < 2.0:
            return
        self.said = now
        eta = (now - self.began) / max(1, done - self.start) * (self.total - done)
        left = f"  ETA {eta:.0f} s" if done < self.total else f"  {now - self.began:.0f} s"
        print(f"{self.label}  {done}/{self.total}  {note}{left}", file=sys.stderr, flush=True)


@contextmanager
def progress(label: str, total: int, done: int = 0) -> Iterator[Bar]:
    """Show progress of ``total`` units of work on standard error, from ``done`` on."""
    if _hidden:
        yield _Nothing()
        return
    if not sys.stderr.isatty():
        yield _Lines(label, total, done)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as bars:
        task = bars.add_task(label, total=total, completed=done, note="")

        class _Rich:
            def update(self, done: int, note: str = "") -> None:
                bars.update(task, completed=done, note=note)

        yield _Rich()
