"""Measures of runs: what a run still lacks is taken and put into its folder, one after the other.

Each is written as soon as it is there, so that a kill costs one measure and the same command goes on; one that
fails does not lose the others.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lab import measure
from lab.errors import LabError, Stopped, one_line
from lab.progress import Bar, hidden, hide, progress
from lab.runs.store import RunFolder
from lab.study.pool import Job, Pool
from lab.study.slots import slots

if TYPE_CHECKING:
    from lab.training.load import Loaded

KEPT = "stopped; measures taken until now are kept, the same command goes on"

log = logging.getLogger(__name__)


@dataclass
class Came:
    """What came of measuring a run."""

    taken: int = 0
    """Measures."""
    failed: list[str] = field(default_factory=list)
    """One line for each that could not be taken."""


def done(folders: Iterable[RunFolder]) -> list[RunFolder]:
    """Those of runs that are done: a diverged one has no weights to speak of. Each once."""
    return [folder for folder in dict.fromkeys(folders) if (folder.result() or {}).get("status") == "done"]


def lacking(folder: RunFolder, names: Sequence[str]) -> list[str]:
    """The measures among ``names`` that a run's folder does not hold."""
    known = folder.measured()
    return [name for name in names if name not in known]


def load(folder: RunFolder) -> "Loaded":
    """A run as measures take it: in fp32, with one thread, on its own device where that is here.

    Raises:
        LabError: it cannot be loaded.
    """
    import torch

    from lab.config import Device, Precision
    from lab.training.load import load_model, read_config
    from lab.training.resolve import is_here

    torch.set_num_threads(1)
    trained = read_config(folder).device
    device = trained if trained is not Device.auto and is_here(trained) else Device.cpu
    loaded = load_model(folder, device=device)
    config = replace(loaded.config, device=device, precision=Precision.fp32, threads=1, compile=False)
    return replace(loaded, config=config)


def take_all(folder: RunFolder, names: Sequence[str], report: Callable[[int, str], None] | None = None) -> Came:
    """Take those that a run lacks. ``report`` hears of how many there are, and which is taken next.

    Raises:
        LabError: the run cannot be loaded, or its folder not be written.
    """
    loaded, came = load(folder), Came()
    missing = lacking(folder, names)
    for number, name in enumerate(missing):
        if report is not None:
            report(number, name)
        try:
            values = measure.take(name, loaded)
        except Exception as error:
            reason = (
                one_line(error) if isinstance(error, LabError) else f"{type(error).__name__}: {one_line(error)}"
            )
            came.failed.append(f"measure {name} of run {folder.path.name}: {reason}")
            log.debug("%s", came.failed[-1], exc_info=error)
            continue
        _add(folder, name, values)
        came.taken += 1
    if report is not None:
        report(len(missing), "")
    return came


def _add(folder: RunFolder, name: str, values: dict[str, float]) -> None:
    """Write one measure beside those that are there.

    Raises:
        LabError: the folder cannot be written.
    """
    try:
        folder.write_measured({**folder.measured(), name: values})
    except OSError as error:
        raise LabError(f"{folder.measures}: cannot be written ({error.strerror})") from error


def take_of_runs(folders: Sequence[RunFolder], names: Sequence[str], *, n_jobs: int | None = None) -> Came:
    """Take what runs lack, several runs at once, each in a process of its own; one alone in this one.

    Args:
        folders: of runs that have ended.
        names: of measures.
        n_jobs: runs at once; None: one for each core.

    Raises:
        Stopped: the process was asked to stop; what was taken until then is kept.
    """
    lacks = {folder: len(lacking(folder, names)) for folder in folders}
    waiting = [folder for folder, count in lacks.items() if count]
    if not waiting:
        return Came()
    with progress("measures taken", sum(lacks.values())) as bar:
        if len(waiting) == 1:
            return _alone(waiting[0], names, bar)
        pool = Pool(slots(n_jobs, jobs_per_gpu=2, device=_device(waiting[0]), threads=1))
        pool.told = lambda index: bar.update(sum(lacks[waiting[i]] for i in index), f"{len(index)} runs")
        jobs = (Job(f"measures of {folder.path.name}", partial(_apart, folder.path, names)) for folder in waiting)
        try:
            ended = pool.run(jobs)
        except Stopped as stop:
            raise Stopped(KEPT, stop.signal_number) from None
    came = Came()
    for folder, end in zip(waiting, ended, strict=True):
        if end.error is None:
            came.taken += end.value.taken
            came.failed += end.value.failed
        else:
            came.failed.append(_of_run(folder, end.error))
    return came


def _device(folder: RunFolder) -> str:
    """Where a run was trained."""
    from lab.training.load import read_config

    with suppress(LabError):  # it is said of the run itself
        return str(read_config(folder).device)
    return "cpu"


def _alone(folder: RunFolder, names: Sequence[str], bar: Bar) -> Came:
    """``take_all`` in this process; a run that cannot be loaded is one that failed, as among others."""
    try:
        with hidden():
            return take_all(folder, names, bar.update)
    except LabError as error:
        return Came(failed=[_of_run(folder, error)])


def _of_run(folder: RunFolder, error: Exception) -> str:
    """Why a run could not be measured, in one line that names it."""
    reason = one_line(error)
    return reason if folder.path.name in reason else f"measures of run {folder.path.name}: {reason}"


def _apart(path: Path, names: Sequence[str]) -> Came:
    """``take_all`` in a process of its own, which leaves the console to the one that started it."""
    hide()
    return take_all(RunFolder(path), names)
