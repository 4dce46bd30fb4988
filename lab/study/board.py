"""How a sweep goes, told while it runs: one live board on a terminal, plain lines elsewhere.

It looks at the run folders and at nothing else, so it is the same for every launcher.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lab.progress import LINE_EVERY_S
from lab.study.manifest import Entry, Manifest
from lab.study.state import ENDED, State, counts, in_words

if TYPE_CHECKING:
    from rich.console import Console

EVERY_S = 0.5
"""Seconds between two looks."""

LOG_LINES = 4
"""Last lines of a failed run's log that are shown."""


def name(entry: Entry) -> str:
    """``rmsnorm seed=2``: the arm, and what tells its runs apart."""
    cell = entry.cell
    parts = [cell.arm] if cell.arm else []
    parts += [f"seed={cell.seed}"] if cell.seed is not None else []
    parts += [f"lr={cell.lr:g}"] if cell.lr is not None else []
    return " ".join(parts) or "the run"


class Watch:
    """The states of a stage's runs, and lines about what changed since the last look."""

    def __init__(self, manifest: Manifest, entries: Sequence[Entry]) -> None:
        self.manifest, self.entries = manifest, entries
        self.states = {entry.id: entry.state() for entry in entries}
        self.others = {e.id: e.state() for e in manifest.runs if e.id not in self.states}
        self.began = time.monotonic()
        self.before = self._progress()

    def look(self) -> list[str]:
        """Look at every run that had not ended; what happened, one line or more each."""
        lines: list[str] = []
        for entry in self.entries:
            old = self.states[entry.id]
            if old.status in ENDED:
                continue
            new = self.states[entry.id] = entry.state()
            if (new.status, new.attempts) != (old.status, old.attempts):
                lines += self._said(entry, old, new)
        return lines

    def _said(self, entry: Entry, old: State, new: State) -> list[str]:
        run = f"{name(entry)}  run {entry.id}"
        if new.status == "running":
            return [f"{self._place()}  {run} begun" + (f" again, from step {new.step}" if new.attempts > 1 else "")]
        if new.status == "done":
            took = f", {new.seconds:.0f} s" if new.seconds is not None else ""
            return [f"{self._place()}  {run} done: loss {new.loss:.4f}{took}"]
        if new.status == "diverged":
            return [f"{self._place()}  {run} diverged: {new.reason}"]
        if new.status == "failed":
            return [f"{self._place()}  {run} failed: {new.reason}", *tail(entry)]
        if new.status == "partial":
            return [f"{self._place()}  {run} stopped after step {new.step}: {new.reason or 'killed'}"]
        return []

    def _place(self) -> str:
        ended = sum(state.status in ENDED for state in self._all())
        return f"[{ended}/{self.manifest.expected}]"

    def _all(self) -> list[State]:
        return (
            [*self.others.values(), *self.states.values()] if hasattr(self, "others") else [*self.states.values()]
        )

    def _progress(self) -> float:
        """Runs' worth of work that is done."""
        return sum(share(state) for state in self._all())

    def headline(self) -> str:
        """Counts of all runs of the sweep, and when it will be done."""
        found = counts(self._all())
        unknown = self.manifest.expected - sum(found.values())
        if unknown > 0:
            found["pending"] = found.get("pending", 0) + unknown
        left = self.manifest.expected - self._progress()
        gained = self._progress() - self.before
        eta = (
            f"  ETA {duration((time.monotonic() - self.began) / gained * left)}" if gained > 0 and left > 0 else ""
        )
        return f"{self.manifest.label}: {in_words(found)}{eta}"

    def progress(self) -> str:
        """``headline`` and how far each run is that is being trained, in a line."""
        runs = (f"{name(entry)} {now.step}/{now.steps or '?'}" for entry, now in self.running())
        return "  ".join([self.headline(), *runs])

    def running(self) -> list[tuple[Entry, State]]:
        """The runs that are being trained."""
        return [(entry, s) for entry in self.entries if (s := self.states[entry.id]).status == "running"]


def share(state: State) -> float:
    """How much of a run is done, from 0 to 1."""
    if state.status in ENDED:
        return 1.0
    return state.step / state.steps if state.steps else 0.0


def duration(seconds: float) -> str:
    """``42 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def tail(entry: Entry) -> list[str]:
    """The last lines of a run's log, and where the rest is."""
    try:
        lines = entry.folder.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
    except OSError:
        lines = []
    return [*(f"    {line}" for line in lines), f"    see {entry.folder.log}"]


@contextmanager
def board(manifest: Manifest, entries: Sequence[Entry], *, show: bool = True) -> Iterator[None]:
    """Tell how the runs go while the body runs; nothing where they tell it themselves (``show`` false)."""
    if not show:
        yield
        return
    watch = Watch(manifest, entries)
    ended = threading.Event()
    teller = _live if sys.stdout.isatty() else _plain
    thread = threading.Thread(target=teller, args=(watch, ended), name="board", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _follow(watch: Watch, ended: threading.Event, tell: Callable[[list[str]], Any]) -> None:
    last = False
    while not last:
        last = ended.wait(EVERY_S)  # one more look after the end
        tell(watch.look())


def _plain(watch: Watch, ended: threading.Event) -> None:
    said = time.monotonic()

    def tell(lines: list[str]) -> None:
        nonlocal said
        if not lines and time.monotonic() - said >= LINE_EVERY_S and watch.running():
            lines = [watch.progress()]
        for line in lines:
            print(line, flush=True)
            said = time.monotonic()

    _follow(watch, ended, tell)


def _live(watch: Watch, ended: threading.Event) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with Live(picture(watch, console), console=console, refresh_per_second=2, transient=True) as live:

        def tell(lines: list[str]) -> None:
            for line in lines:
                live.console.print(line, markup=False, highlight=False)
            live.update(picture(watch, console))

        _follow(watch, ended, tell)


def picture(watch: Watch, console: "Console") -> Any:
    """The headline above a row for each run that is being trained."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for entry, now in watch.running()[: max(1, console.height - 4)]:
        bar = ProgressBar(total=now.steps or 1, completed=now.step, width=20)
        loss = "" if now.loss is None else f"loss {now.loss:.3f}"
        table.add_row(name(entry), entry.id, bar, f"{now.step}/{now.steps or '?'}", loss)
    return Group(watch.headline(), table)
