"""What lies on the disk that no table, no resume and nobody who reads weights will ask for."""

import fcntl
import json
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.paths import cache_dir
from lab.runs.store import RunFolder

ENDED = ("done", "diverged")
"""Statuses of a run that nothing goes on with."""


@dataclass(frozen=True)
class Leftover:
    """Something of one run, or of the cache."""

    what: str
    bytes: int


def of_run(folder: RunFolder, *, kept: str) -> list[Leftover]:
    """What can go of a run that nobody holds; ``kept``, as ``checkpoint.after``, is for one that has ended."""
    found = []
    files = sorted(folder.checkpoints.glob("step-*.safetensors")) if has_ended(folder) else []
    if kept == "none" and files:
        found.append(Leftover("checkpoints", _bytes(files)))
    if kept == "weights" and files:
        found.append(Leftover("older checkpoints", _bytes(files[:-1])))
        found.append(Leftover("optimizer's state", _beside_weights(files[-1])))
    found.append(Leftover("half-written files", _bytes(temporaries(folder))))
    found = [one for one in found if one.bytes]
    if (folder.path / "lock").exists():
        found.append(Leftover("lock of a dead process", 0))
    return found


def has_ended(folder: RunFolder) -> bool:
    """Whether the run has a result that stands."""
    return (folder.result() or {}).get("status") in ENDED


def kept_of(folder: RunFolder) -> str:
    """The run's ``checkpoint.after``; of an earlier version's run ``weights``."""
    section = _config(folder).get("checkpoint")
    return str(section.get("after", "weights")) if isinstance(section, dict) else "weights"


def sources(folders: Collection[RunFolder]) -> set[str]:
    """The ids of runs that others start from."""
    return {str(start) for folder in folders if (start := _config(folder).get("init_from")) is not None}


def temporaries(folder: RunFolder) -> list[Path]:
    """Files that killed processes left half-written in a run's folder."""
    return [path for place in (folder.path, folder.checkpoints) for path in place.glob(".*.tmp")]


def of_cache() -> list[tuple[Path, int]]:
    """Files and folders that killed processes left half-written in the cache, with their bytes."""
    return [(path, _bytes(_inside(path))) for lock in _locks() if _is_free(lock) for path in _unfinished(lock)]


def clear_cache() -> None:
    """Remove them; what another process writes is left alone."""
    for lock in _locks():
        with suppress(FileNotFoundError), lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            for path in _unfinished(lock):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()


def _locks() -> Iterator[Path]:
    return cache_dir().glob("**/*.lock")


def _is_free(lock: Path) -> bool:
    with suppress(OSError), lock.open("r") as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    return False


def _unfinished(lock: Path) -> list[Path]:
    """The temporary names of the entry that a lock is for: see ``lab.data.cache`` and ``lab.files``."""
    entry = re.escape(lock.name.removesuffix(".lock"))
    pattern = re.compile(rf"\.{entry}\.([0-9a-f]{{32}}(\.old)?|(sha256\.)?\d+\.tmp)")
    return [path for path in lock.parent.iterdir() if pattern.fullmatch(path.name)]


def _inside(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]


def _bytes(files: list[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _beside_weights(checkpoint: Path) -> int:
    """Bytes of the tensors that are not weights, by the header: its length in 8 bytes, then JSON."""
    try:
        with checkpoint.open("rb") as file:
            header = json.loads(file.read(min(int.from_bytes(file.read(8), "little"), checkpoint.stat().st_size)))
        others = [about for name, about in header.items() if name != "__metadata__" and name[:6] != "model."]
        return sum(end - begin for begin, end in (about["data_offsets"] for about in others))
    except (OSError, ValueError, AttributeError, KeyError, TypeError):  # damaged: left as it is
        return 0


def _config(folder: RunFolder) -> dict[str, Any]:
    try:
        value = json.loads((folder.path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
