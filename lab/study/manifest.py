"""A study's folder: what was asked for, stamped before the first run; how it goes is read from the run folders.

``outputs/studies/NAME-HASH/study.json`` holds the words of the command, the declaration of a study and its hash,
and the runs of each stage that has begun. The hash is of what decides the runs: an edited study file makes
another folder, and never adds to an old one.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.errors import LabError, did_you_mean
from lab.files import write_json
from lab.paths import runs_dir, studies_dir
from lab.runs.store import RunFolder
from lab.study.cell import Cell
from lab.study.state import State, state

SCHEMA = 1
"""Version of ``study.json``."""

SHOWN = 6
"""Names that an error lists."""


@dataclass(frozen=True)
class Entry:
    """A run of a study."""

    id: str
    stage: str
    cell: Cell

    @property
    def folder(self) -> RunFolder:
        """Where the run is, or will be."""
        return RunFolder(runs_dir() / self.id)

    def state(self) -> State:
        """What has become of it."""
        return state(self.folder)


@dataclass(frozen=True)
class Manifest:
    """What was asked for."""

    name: str
    """The study's, or ``sweep``."""
    hash: str
    """Eight hex digits over what decides the runs."""
    words: tuple[str, ...]
    """Of the command that asked, after ``lab train``."""
    declared: dict[str, Any] | None
    """The study file's content; None for a plain sweep."""
    asked: str
    """When it was first asked for, UTC."""
    expected: int
    """Runs in all, of stages that have not begun too; a learning rate at the grid's edge may add some."""
    runs: tuple[Entry, ...] = ()

    @property
    def label(self) -> str:
        """The name of its folder."""
        return f"{self.name}-{self.hash}"

    @property
    def path(self) -> Path:
        """Its folder."""
        return studies_dir() / self.label

    def with_stage(self, stage: str, cells: Sequence[Cell], ids: Sequence[str]) -> "Manifest":
        """With the runs of a stage, which may be there already."""
        new = tuple(Entry(run, stage, cell) for cell, run in zip(cells, ids, strict=True))
        kept = tuple(entry for entry in self.runs if entry.stage != stage)
        runs = kept + new
        return replace(self, runs=runs, expected=max(self.expected, len(runs)))

    def write(self) -> None:
        """Stamp it; a time that is there already stays.

        Raises:
            LabError: the folder cannot be written.
        """
        earlier = read(self.path)
        value = asdict(self) | {"schema": SCHEMA, "asked": earlier.asked if earlier else self.asked}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_json(self.path / "study.json", value)
        except OSError as error:
            raise LabError(
                f"{self.path}: cannot be written ({error.strerror}); LAB_OUTPUTS sets another place"
            ) from error

    def earlier(self) -> list["Manifest"]:
        """What the same command asked for before, when the study's file said something else; the latest first."""
        same = [m for m in manifests() if (m.name, m.words) == (self.name, self.words) and m.hash != self.hash]
        return same if self.declared is not None else []

    def states(self) -> list[tuple[Entry, State]]:
        """What has become of each run that is known."""
        return [(entry, entry.state()) for entry in self.runs]


def digest(value: Any) -> str:
    """Eight hex digits of a value that JSON can say."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def now() -> str:
    """The time in UTC, to seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read(folder: Path) -> Manifest | None:
    """The manifest in a folder; None where there is none that can be read."""
    try:
        value = json.loads((folder / "study.json").read_text(encoding="utf-8"))
        if value.pop("schema") != SCHEMA:
            return None
        runs = tuple(Entry(run["id"], run["stage"], _cell(run["cell"])) for run in value.pop("runs"))
        return Manifest(**value | {"words": tuple(value["words"])}, runs=runs)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def manifests() -> list[Manifest]:
    """All studies and sweeps in the outputs folder, the latest first."""
    found = [manifest for file in studies_dir().glob("*/study.json") if (manifest := read(file.parent))]
    return sorted(found, key=lambda manifest: (manifest.asked, manifest.label), reverse=True)


def at(path: Path) -> Manifest | None:
    """The study of a folder, or that of a name where nothing lies at the path; None where it is something else."""
    if path.is_dir():
        return read(path)
    return None if path.exists() else named(str(path))


def named(text: str) -> Manifest | None:
    """The study whose folder's name is or begins so; of several the one of just that name, and the latest."""
    found = [manifest for manifest in manifests() if text and manifest.label.startswith(text)]
    return next((m for m in found if text in (m.name, m.label)), found[0] if found else None)


def find(text: str) -> Manifest:
    """The study that was named by its folder's name, the beginning of it, or a path.

    Raises:
        LabError: no study is named so.
    """
    there = Path(text).expanduser()
    manifest = read(there if there.is_dir() else there.parent) if text and there.exists() else None
    manifest = manifest or named(text)
    if manifest is not None:
        return manifest
    labels = [manifest.label for manifest in manifests()]
    if not labels:
        raise LabError(
            f"study '{text}' is not there: no studies in {studies_dir()}; lab train study=NAME makes one"
        )
    more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
    near = did_you_mean(text, [*labels, *(label.rpartition("-")[0] for label in labels)])
    raise LabError(f"study '{text}' is not one of {', '.join(labels[:SHOWN])}{more}{near}")


def _cell(value: dict[str, Any]) -> Cell:
    return Cell(**value | {"overrides": tuple(value["overrides"])})
