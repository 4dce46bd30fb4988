"""Run folders: ``outputs/runs/ID/`` with its result, its lock, and how many of them are read at once.

``result.json`` is written when a run starts, when it ends and in between never, so a kill leaves the status
``running`` behind; the lock, which dies with its process, tells a running run from a partial one.
"""

import fcntl
import gc
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from lab.errors import Held, LabError
from lab.files import write_json

SCHEMA = 1
"""Version of ``result.json``, and of ``measures.json``."""

UNENDED = ("running", "partial")
"""Statuses on disk of a run that has no result yet; which of them is true, the lock knows."""

LOCK_TRIES = 4
"""How often a held lock is tried again, 50 ms apart, before it counts as held."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @property
    def metrics(self) -> Path:
        """One line a step."""
        return self.path / "metrics.jsonl"

    @property
    def timing(self) -> Path:
        """One line a step, of the clock."""
        return self.path / "timing.jsonl"

    @property
    def layers(self) -> Path:
        """One line every few steps, of each layer; where ``track.layers`` is set."""
        return self.path / "layers.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The last two checkpoints."""
        return self.path / "checkpoint"

    @property
    def measures(self) -> Path:
        """What was measured of the run when it was done: see ``lab.measure``."""
        return self.path / "measures.json"

    @property
    def log(self) -> Path:
        """What the run said."""
        return self.path / "run.log"

    def result(self) -> dict[str, Any] | None:
        """What ``result.json`` holds, or None where there is none that can be read."""
        file = _contents(self.path / "result.json")
        return None if file is None else _parsed(file[1])

    def result_now(self) -> dict[str, Any] | None:
        """``result`` with the status of a run that has not ended told by its lock: ``running`` or ``partial``."""
        return self._now(self.result())

    def _now(self, result: dict[str, Any] | None) -> dict[str, Any] | None:
        if result is None or result.get("status") not in UNENDED:
            return result
        if self.is_locked():
            return {**result, "status": "running"}
        result = self.result() or result  # it may have ended since
        return {**result, "status": "partial"} if result["status"] in UNENDED else result

    def measured(self) -> dict[str, dict[str, float]]:
        """What ``measures.json`` holds, numbers by measure and name; empty where there is none that can be read."""
        if not os.access(f"{self.path}/measures.json", os.F_OK):  # of most of thousands of runs there are none
            return {}
        file = _contents(self.measures)
        values = (_parsed(file[1]) or {}).get("values") if file else None
        return values if isinstance(values, dict) else {}

    def write_measured(self, values: Mapping[str, Mapping[str, float]]) -> None:
        """Replace ``measures.json``."""
        write_json(self.measures, {"schema": SCHEMA, "values": values})

    def write_result(self, result: dict[str, Any]) -> None:
        """Replace ``result.json``."""
        write_json(self.path / "result.json", {"schema": SCHEMA, **result})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and hold the run; the lock is gone when the process is, however it ends.

        Raises:
            LabError: another process holds it, or the folder cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = self._take_lock()
        except OSError as error:
            raise unwritable(self.path, error) from error
        with file:
            try:
                yield
            finally:
                with suppress(OSError):
                    (self.path / "lock").unlink(missing_ok=True)

    def _take_lock(self) -> TextIO:
        path = self.path / "lock"
        for _ in range(LOCK_TRIES):
            file = path.open("a+", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # held, or looked at by is_locked for an instant
                file.seek(0)
                holder = file.read().strip() or "another process"
                file.close()
                time.sleep(0.05)
                continue
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                file.truncate(0)
                with suppress(OSError):  # a full disk; the name is only for others to read
                    os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()}".encode())
                return file
            file.close()  # its last holder removed it between our opening and our locking
            holder = "another process"
        raise Held(f"run {self.path.name} is being trained by {holder}")

    def is_locked(self) -> bool:
        """Whether a process holds the run now."""
        try:
            with (self.path / "lock").open("r", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False


def unwritable(path: Path, error: OSError) -> LabError:
    """What to say when the outputs folder cannot be written."""
    return LabError(f"{path}: cannot be written ({error.strerror}); LAB_OUTPUTS sets another place")


def read_results(paths: Sequence[Path]) -> tuple[list[dict[str, Any]], list[Path]]:
    """The results of every run under the paths, and the result files that could not be read.

    A path may be a run folder, a folder of them, an outputs folder, or a ``result.json``. A run whose result says
    ``running`` while nobody holds its lock is ``partial``.

    Raises:
        LabError: a path is missing or cannot be read.
    """
    found, damaged = read_runs(paths)
    return [result for _, result in found], damaged


@contextmanager
def no_collection() -> Iterator[None]:
    """Without looking for cycles meanwhile: thousands of results make millions of objects and no cycle."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def read_runs(places: Iterable[Path | RunFolder]) -> tuple[list[tuple[Path, dict[str, Any]]], list[Path]]:
    """As ``read_results``, each result with the folder of its run, and with what was measured of it, ``measures``.

    A ``RunFolder`` among the places is read as it is, and passed over where it has no result.

    Raises:
        LabError: a path is missing or cannot be read.
    """
    found: list[tuple[Path, dict[str, Any]]] = []
    damaged: list[Path] = []
    seen: set[tuple[int, int]] = set()
    with no_collection():
        for folder in _folders(places):
            file = _contents(folder / "result.json")
            if file is None or file[0] in seen:
                continue
            seen.add(file[0])
            result = RunFolder(folder)._now(_parsed(file[1]))
            if result is None or not {"id", "status", "config"} <= result.keys():
                damaged.append(folder / "result.json")
            else:
                if measured := RunFolder(folder).measured():
                    result["measures"] = measured
                found.append((folder, result))
    return found, damaged


def run_folders(paths: Sequence[Path]) -> list[Path]:
    """The folders under the paths, taken as ``read_results`` takes them, in which there is a ``result.json``.

    Raises:
        LabError: a path is missing or cannot be read.
    """
    return list(dict.fromkeys(folder.resolve() for folder in _folders(paths) if (folder / "result.json").is_file()))


def _folders(places: Iterable[Path | RunFolder]) -> Iterator[Path]:
    """The folders that may be those of runs: whether there is a result, the attempt to read it tells."""
    for place in places:
        if isinstance(place, RunFolder):
            yield place.path
            continue
        try:
            if place.is_file():
                yield place.parent
            elif place.exists():
                yield from _below(place)
            else:
                raise LabError(f"{place}: no such file or folder")
        except OSError as error:
            raise LabError(f"{place}: cannot be read ({error.strerror})") from error


def _below(path: Path) -> Iterator[Path]:
    yield path
    for inner in sorted(path.iterdir(), key=lambda inner: inner.name):
        if inner.name == "runs" and inner.is_dir():
            yield from _below(inner)
        else:
            yield inner


def _contents(path: Path) -> tuple[tuple[int, int], bytes] | None:
    """Which file it is, by device and number, and what it holds, nothing where it cannot be read; None: no file."""
    try:
        with path.open("rb", buffering=0) as file:  # many are read: each in as few calls as can be
            about = os.fstat(file.fileno())
            return (about.st_dev, about.st_ino), file.readall()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError:
        with suppress(OSError):
            about = path.stat()
            return (about.st_dev, about.st_ino), b""
        return None


def _parsed(data: bytes) -> dict[str, Any] | None:
    """A result; None for what is none."""
    try:
        value = json.loads(data.decode("utf-8"))
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.get("schema") == SCHEMA else None
