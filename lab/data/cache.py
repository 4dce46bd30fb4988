"""Writing the cache: one process builds an entry, the others wait, and no reader meets half of one."""

import fcntl
import logging
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import LabError
from lab.files import write_atomically
from lab.paths import cache_dir

log = logging.getLogger(__name__)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the cache in what goes wrong while writing ``path``.

    Raises:
        LabError: the folder cannot be written, or the disk is full.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or path
        reason = error.strerror or error
        hint = f"set LAB_CACHE (now {cache_dir()}) to a folder that can be written and has room"
        raise LabError(f"cannot write the cache at {where}: {reason}; {hint}") from error


@contextmanager
def locked(entry: Path) -> Iterator[None]:
    """Hold the lock of a cache entry, waiting for the process that has it. The lock file stays.

    Raises:
        LabError: the lock file cannot be made.
    """
    lock = entry.with_name(f"{entry.name}.lock")
    with writing(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = lock.open("a")
    with handle:
        with writing(lock):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log.info("waiting for another process to write %s", entry)
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in place whole; hold its lock.

    Raises:
        LabError: the file cannot be written.
    """
    with writing(path):
        for left in path.parent.glob(f".{path.name}.*"):  # of a process that was killed
            left.unlink()
        write_atomically(path, data)


@contextmanager
def new_folder(entry: Path) -> Iterator[Path]:
    """A temporary folder beside an entry, gone afterwards unless it was renamed; hold the entry's lock.

    Folders that killed processes left for this entry are removed.
    """
    for left in entry.parent.glob(f".{entry.name}.*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = entry.with_name(f".{entry.name}.{uuid.uuid4().hex}")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
