"""Writing so that a reader never sees half a file, and a crash never leaves one."""

import json
import os
from pathlib import Path
from typing import Any


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary name beside ``path``, sync, and rename over it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write_synced(temporary, data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def remove_temporaries(folder: Path) -> None:
    """Remove the temporary files that killed processes left in ``folder``; nobody may be writing there."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON, sorted and indented."""
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
