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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from lab.errors import Held, LabError
from lab.files import write_json

SCHEMA = 1
"""Version of ``result.json``."""

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
    def log(self) -> Path:
        """What the run said."""
        return self.path / "run.log"

    def result(self) -> dict[str, Any] | None:
        """What ``result.json`` holds, or None where there is none that can be read."""
        try:
            value = json.loads((self.path / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return value if isinstance(value, dict) and value.get("schema") == SCHEMA else None

    def result_now(self) -> dict[str, Any] | None:
        """``result`` with the status of a run that has not ended told by its lock: ``running`` or ``partial``."""
        result = self.result()
        if result is None or result.get("status") not in UNENDED:
            return result
        if self.is_locked():
            return {**result, "status": "running"}
        result = self.result() or result  # it may have ended since
        return {**result, "status": "partial"} if result["status"] in UNENDED else result

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
    with no_collection():
        return _read_results(paths)


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


def _read_results(paths: Sequence[Path]) -> tuple[list[dict[str, Any]], list[Path]]:
    results: list[dict[str, Any]] = []
    damaged: list[Path] = []
    seen: set[tuple[int, int]] = set()
    for path in paths:
        for file in _result_files(path):
            place = file.stat()
            if (place.st_dev, place.st_ino) in seen:
                continue
            seen.add((place.st_dev, place.st_ino))
            result = RunFolder(file.parent).result_now()
            if result is None or not {"id", "status", "config"} <= result.keys():
                damaged.append(file)
            else:
                results.append(result)
    return results, damaged


def run_folders(paths: Sequence[Path]) -> list[Path]:
    """The folders under the paths, taken as ``read_results`` takes them, in which there is a ``result.json``.

    Raises:
        LabError: a path is missing or cannot be read.
    """
    return list(dict.fromkeys(file.parent.resolve() for path in paths for file in _result_files(path)))


def _result_files(path: Path) -> list[Path]:
    try:
        if path.is_file():
            return [path]
        if not path.exists():
            raise LabError(f"{path}: no such file or folder")
        found = [path / "result.json"] if (path / "result.json").is_file() else []
        for folder in sorted(path.iterdir()):
            if folder.name == "runs" and folder.is_dir():
                found += _result_files(folder)
            elif (folder / "result.json").is_file():
                found.append(folder / "result.json")
    except OSError as error:
        raise LabError(f"{path}: cannot be read ({error.strerror})") from error
    return found
