"""A sweep or a study from its stages to its runs: checked first, done once, resumed, never lost.

Every run is checked before the first one starts. Runs that are done are not launched; those that another process
trains are waited for; what a launcher brings back is read from the run folders, so a killed worker, launcher or
machine costs no more than the steps since a checkpoint. Hydra's side is ``hydra_plugins/lab/sweeper.py``.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from lab.config import RunConfig
from lab.errors import ConfigError, Held, LabError, one_line
from lab.paths import runs_dir
from lab.runs.attempts import note_ending
from lab.study.board import board
from lab.study.cell import Cell, Stage
from lab.study.epochs import Windows, refuse_epochs
from lab.study.expand import Results, own
from lab.study.manifest import Entry, Manifest
from lab.study.settings import SweepSettings
from lab.study.state import ENDED

Script = Generator[Stage, Results, None]
"""Stages, each of which is sent the results of the one before it."""

WAIT_S = 1.0
"""Seconds between two looks at runs that other processes train."""

STAND_IN = {"status": "done", "final_loss": 1.0, "early_loss": 1.0, "bits_per_byte": 1.0}
"""A result for the preview of a script, in which nothing is trained."""

RESOLVED = ("device", "precision", "threads", "attn_path", "compile")
"""Settings of a run that depend on the machine where they are null or ``auto``."""

log = logging.getLogger(__name__)


class Planned(Protocol):
    """A run that was checked."""

    config: RunConfig
    batches: Windows

    def id_with(self, seed: int) -> str:
        """The id of the run that differs in its seed alone."""


@dataclass(frozen=True)
class Job:
    """What a launcher says of a run."""

    error: Exception | None
    was_done: bool = False
    """Whether there was nothing to train."""


class Host(Protocol):
    """What Hydra does for a sweep."""

    tells: bool
    """Whether runs tell the console themselves how they go, being trained in this process."""
    stops_itself: bool
    """Whether the launcher starts nothing new after a failure, where that is wanted."""

    def plan(self, overrides: Sequence[str]) -> Planned:
        """Compose and check a run."""

    def launch(self, runs: Sequence[Sequence[str]], configs: Sequence[RunConfig]) -> Sequence["Job"]:
        """Train runs, and say what came of them in their order; fewer where the launcher stopped.

        ``configs`` are what they were resolved to here, seeds apart.
        """


@dataclass
class Sweep:
    """What is asked for, and how far it has come."""

    host: Host
    settings: SweepSettings
    manifest: Manifest
    only: frozenset[str] | None = None
    """Ids of the runs to train, the others are left as they are; None: all."""
    fresh: bool = False
    """Whether to train runs again that are done."""
    before: Callable[[], None] = lambda: None
    """Called before anything is trained; may refuse to begin."""
    after: Callable[[Stage, Results], None] = lambda stage, results: None
    """Called when a stage is done; may refuse to go on."""
    plans: dict[tuple[str, ...], Planned] = field(default_factory=dict)
    trained: list[str] = field(default_factory=list)
    failed: list[Entry] = field(default_factory=list)

    def check(self, script: Script) -> None:
        """Check every run of a script, so that a mistake costs no training.

        Raises:
            LabError: names the mistake, and the run.
        """
        stages = list(preview(script))
        cells = [cell for stage in stages for cell in stage.cells]
        arms: dict[str, str] = {}
        limit = (self.manifest.declared or {}).get("max_epochs")
        for cell in cells:
            try:
                arm = arms.setdefault(self.id(cell), cell.arm)
            except LabError as error:
                apart = " ".join(own(cell.overrides, [other.overrides for other in cells]))
                where = f" (in the run {apart}; none was started)" if apart else ""
                raise ConfigError(f"{error}{where}") from error
            if limit is not None:
                planned = self.planned(cell)
                refuse_epochs(self.manifest.name, cell.arm, limit, planned.config, planned.batches)
            if arm != cell.arm and self.manifest.declared is not None:
                raise ConfigError(f"study {self.manifest.name}: '{arm}' and '{cell.arm}' come to the same run")
        if self.manifest.declared is None:
            self.manifest = replace(self.manifest, expected=len(arms))

    def carry_out(self, script: Script) -> None:
        """Train a script's stages one after the other, and say what came of it.

        Raises:
            LabError: a run failed, or a study is not to go on.
        """
        self.before()
        make_room()
        for earlier in self.manifest.earlier()[:1]:
            log.info(
                "%s was declared otherwise before: this is %s, and no part of %s",
                self.manifest.name,
                self.manifest.label,
                earlier.label,
            )
        try:
            for stage, send in stages_of(script):
                entries = self.enter(stage)
                with board(self.manifest, entries, show=not self.host.tells):
                    self.finish(entries)
                if not all(map(has_ended, entries)):
                    break
                results = {entry.cell: entry.folder.result() for entry in entries}
                self.after(stage, results)
                send(results)
        finally:
            script.close()
        self.conclude()

    def enter(self, stage: Stage) -> list[Entry]:
        """Put a stage's runs into the manifest; each run once, though two cells may come to the same."""
        ids = [self.id(cell) for cell in stage.cells]
        self.manifest = self.manifest.with_stage(stage.name, stage.cells, ids)
        self.manifest.write()
        return [entry for entry in self.manifest.runs if entry.stage == stage.name]

    def id(self, cell: Cell) -> str:
        """The id of a cell's run; runs that differ in their seed alone are checked together."""
        planned, (_, seed) = self.planned(cell), without_seed(cell.overrides)
        return planned.id_with(planned.config.seed if seed is None else seed)

    def planned(self, cell: Cell) -> Planned:
        """What checking a run gave, but perhaps of another seed."""
        words, _ = without_seed(cell.overrides)
        if words not in self.plans:
            self.plans[words] = self.host.plan(cell.overrides)
        return self.plans[words]

    def finish(self, entries: Sequence[Entry]) -> None:
        """Launch until every run has ended, or failed as often as it may."""
        runs = {entry.id: entry for entry in entries if self.only is None or entry.id in self.only}
        left = [entry for entry in runs.values() if self.fresh or not has_ended(entry)]
        tries: Counter[str] = Counter()
        while left:
            free = [entry for entry in left if not entry.folder.is_locked()]
            if not free:
                time.sleep(WAIT_S)
            for entry, job in self.launched(free):
                if job.error is None:
                    self.trained += [] if job.was_done else [entry.id]
                    left.remove(entry)
                elif not isinstance(job.error, Held):
                    if not entry.folder.is_locked():  # a killed process could not say so itself
                        note_ending(entry.folder, one_line(job.error))
                    tries[entry.id] += 1
                    if tries[entry.id] > self.settings.retries:
                        left.remove(entry)
                        self.failed.append(entry)
            if self.failed and self.settings.on_error == "stop":
                return
            left = [entry for entry in left if self.fresh or not has_ended(entry)]

    def launched(self, entries: Sequence[Entry]) -> Iterator[tuple[Entry, Job]]:
        """Runs with what the launcher says of them; one at a time where a failure is to stop the sweep."""
        alone = self.settings.on_error == "stop" and not self.host.stops_itself
        for batch in [[entry] for entry in entries] if alone else [list(entries)] if entries else []:
            configs = [self.planned(entry.cell).config for entry in batch]
            jobs = self.host.launch([self.words(entry.cell) for entry in batch], configs)
            yield from zip(batch, jobs, strict=False)  # fewer came back where the launcher stopped
            if alone and self.failed:
                return

    def words(self, cell: Cell) -> list[str]:
        """A run's overrides, to train it again if that is asked for."""
        return [*cell.overrides, *(["fresh=true"] if self.fresh else [])]

    def conclude(self) -> None:
        """Say what came of the sweep.

        Raises:
            LabError: a run failed.
        """
        runs = {entry.id: entry for entry in self.manifest.runs}
        states = {entry.id: entry.state() for entry in runs.values()}
        trained, failed = set(self.trained), {entry.id for entry in self.failed}
        done = [id for id, s in states.items() if s.status in ENDED and id not in trained]
        diverged = sum(s.status == "diverged" for s in states.values())
        parts = [f"{len(trained)} trained", f"{len(done)} already done"]
        parts += [f"{diverged} of them diverged"] if diverged else []
        parts += [f"{len(failed)} failed"] if failed else []
        left = self.manifest.expected - len(trained) - len(done) - len(failed)
        parts += [f"{left} left"] if left > 0 else []
        n = self.manifest.expected
        table = "lab table" if self.manifest.declared is None else f"lab table {self.manifest.name}"
        summary = f"{n} run{'' if n == 1 else 's'}: {', '.join(parts)}. `{table}` shows them."
        if failed:
            raise LabError(f"{summary} The same command goes on with what is left")
        log.info("%s", summary)


def settled(words: Sequence[str], config: RunConfig) -> list[str]:
    """A run's overrides with what was resolved here, so that it is the same run wherever it is trained."""
    given = {word.partition("=")[0] for word in words}
    return [*words, *(f"{key}={getattr(config, key)}" for key in RESOLVED if key not in given)]


def has_ended(entry: Entry) -> bool:
    """Whether the run has a result."""
    return entry.state().status in ENDED


def preview(script: Script) -> Iterator[Stage]:
    """A script's stages with stand-ins for results."""
    for stage, send in stages_of(script):
        yield stage
        send({cell: dict(STAND_IN) for cell in stage.cells})


def stages_of(script: Script) -> Iterator[tuple[Stage, Callable[[Results], None]]]:
    """Each stage with the function that takes its results; a stage that got none is the last."""
    sent: list[Results] = []
    try:
        stage = next(script)
        while True:
            yield stage, sent.append
            if not sent:
                return
            stage = script.send(sent.pop())
    except StopIteration:
        return


def without_seed(words: Sequence[str]) -> tuple[tuple[str, ...], int | None]:
    """Overrides but for a plain seed, and that seed."""
    seeds = [word for word in words if word.startswith("seed=") and word[5:].isdecimal()]
    return tuple(word for word in words if word not in seeds), int(seeds[-1][5:]) if seeds else None


def make_room() -> None:
    """Make the folder that the runs of a sweep go to.

    Raises:
        LabError: it cannot be written; said once, and not by every run.
    """
    folder = runs_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = None if os.access(folder, os.W_OK | os.X_OK) else "no permission to write"
    except OSError as error:
        reason = error.strerror
    if reason:
        raise LabError(f"{folder}: cannot be written ({reason}); LAB_OUTPUTS sets another place")
