"""Data sets of the Hugging Face hub, streamed into the cache as far as they are asked for.

A stream is read in the order that the hub gives it, and kept in the cache in parts, so that a larger ``tokens``, or
the same command after the network broke off, goes on from where it ended; a smaller one takes the beginning.
``datasets`` reads local files by the same way, where its ``dataset`` is ``parquet`` or ``json``.
"""

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from lab.data import cache
from lab.errors import ConfigError, LabError, one_line
from lab.files import write_atomically, write_json
from lab.paths import cache_dir

log = logging.getLogger(__name__)

PART = 4_000_000
"""Bytes of text after which a part is written and the place in the stream noted."""

LOCAL = ("json", "parquet", "csv", "text")
"""Names of ``datasets`` for formats of files, which are no data sets of the hub."""

TIMEOUT_S = 20.0
"""How long the hub may take to say which revision there is."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where documents are streamed from."""

    NAME: ClassVar[str] = "data.dataset"
    """What errors call ``dataset``."""
    HOW: ClassVar[str] = "lab data get"
    """The command that fetches it."""

    dataset: str
    """Name on the hub, or a format of local files."""
    subset: str | None
    """Configuration of the data set; None: the only one."""
    split: str
    """Split of the data set that is read, whatever is made of it."""
    field: str
    """Column that holds the text."""
    begins: str | None
    """Pattern of a row that begins a document, where documents have several rows; None: each row is one."""
    files: tuple[str, ...] = ()
    """Local files, in order."""

    @property
    def folder(self) -> Path:
        """Where its documents lie in the cache; local files are others when they were changed."""
        stats = [(path.stat().st_size, path.stat().st_mtime_ns) for path in map(Path, self.files)]
        key = hashlib.sha256(json.dumps([asdict(self), stats], sort_keys=True).encode()).hexdigest()[:12]
        return cache_dir() / "hub" / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', self.dataset)}-{key}"

    def text(self, row: dict[str, Any]) -> str:
        """The document of a row, or its part of one.

        Raises:
            ConfigError: there is no such column, or it holds no text.
        """
        return self.column(row, self.field)

    def column(self, row: dict[str, Any], name: str) -> str:
        """The text of a column, as ``text``."""
        if name not in row:
            raise ConfigError(f"field {name!r} is not a column of {self.dataset}: it has {', '.join(row)}")
        text = row[name]
        if text is not None and not isinstance(text, str):
            raise ConfigError(f"field {name!r} of {self.dataset} holds {type(text).__name__}, not text")
        return text or ""


@dataclass
class Stored:
    """What the cache holds of a source: ``state.json``."""

    revision: str | None = None
    """Commit of the data set that is streamed; None for local files."""
    parts: list[dict[str, Any]] = field(default_factory=list)
    """Of each part its sha256, and the bytes of text up to its end."""
    place: dict[str, Any] | None = None
    """Of the stream, as ``datasets`` says it; None at its beginning."""
    rows: list[str] = field(default_factory=list)
    """That were read of a document which has not ended."""
    done: bool = False
    """Whether the stream has ended."""

    @staticmethod
    def read(folder: Path) -> "Stored":
        """What a folder holds; nothing where it cannot be read."""
        try:
            return Stored(**json.loads((folder / "state.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return Stored()

    @property
    def bytes(self) -> int:
        """Of text."""
        return int(self.parts[-1]["end"]) if self.parts else 0

    def holds(self, n_bytes: int | None) -> bool:
        """Whether so many bytes, or None: all there are, need no stream."""
        return self.done or (n_bytes is not None and self.bytes >= n_bytes)


def part_file(folder: Path, number: int) -> Path:
    """A part's place."""
    return folder / f"{number:05d}.json"


def fetch(source: Source, n_bytes: int | None) -> bool:
    """Have the first documents in the cache, so many that they come to ``n_bytes``; whether any was fetched now.

    Raises:
        LabError: there is no network, no such data set, or the cache cannot be written.
    """
    folder = source.folder
    if Stored.read(folder).holds(n_bytes):
        return False
    with cache.locked(folder):
        stored = Stored.read(folder)  # another process may have been first
        if stored.holds(n_bytes):
            return False
        with cache.writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        _stream(source, stored, folder, n_bytes)
    return True


def documents(source: Source, n_bytes: int | None) -> Iterator[str]:
    """The first documents from the cache, up to the one with which they come to ``n_bytes``.

    Raises:
        LabError: a part is missing or was changed.
    """
    folder, total = source.folder, 0
    for number, part in enumerate(Stored.read(folder).parts):
        path = part_file(folder, number)
        if (found := problem(path, part)) is not None:
            raise LabError(f"{path} {found}: remove {folder} and it is fetched again")
        for text in json.loads(path.read_bytes()):
            yield text
            total += len(text.encode())
            if n_bytes is not None and total >= n_bytes:
                return


def problem(path: Path, part: dict[str, Any]) -> str | None:
    """What is wrong with a part's file; None where it is as it was written."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None if hashlib.sha256(data).hexdigest() == part["sha256"] else "was changed"


def _stream(source: Source, stored: Stored, folder: Path, n_bytes: int | None) -> None:
    """Read on from where the cache ends; the lock is held."""
    if stored.revision is None and not source.files:
        stored.revision = _revision(source)
    stream = _open(source, stored)
    keep = _Keeper(folder, stored, stream.state_dict)
    try:
        for row in stream:
            keep.row(_text(row, source), source.begins)
            if n_bytes is not None and keep.bytes >= n_bytes:
                break
        else:
            keep.end()
    except LabError:
        raise
    except Exception as error:
        if (
            isinstance(error, OSError)
            and error.filename is not None
            and str(error.filename).startswith(str(folder))
        ):
            raise  # the disk, and not the network
        raise LabError(
            f"{source.NAME} {source.dataset!r} broke off after {stored.bytes / 1e6:.1f} MB "
            f"({type(error).__name__}: {one_line(error)}); the same command goes on from there"
        ) from error
    keep.write()


class _Keeper:
    """Puts documents into parts, and these into the cache."""

    def __init__(self, folder: Path, stored: Stored, place: Callable[[], dict[str, Any]]) -> None:
        self.folder, self.stored, self.place = folder, stored, place
        self.bytes = stored.bytes
        self._texts: list[str] = []

    def row(self, text: str, begins: str | None) -> None:
        """Take a row, which may end the document before it."""
        if begins is None:
            self._document(text)
            self._full()
        elif re.search(begins, text) and self.stored.rows:
            whole, self.stored.rows = "".join(self.stored.rows), [text]
            self._document(whole)
            self._full()
        else:
            self.stored.rows.append(text)

    def end(self) -> None:
        """The stream has ended, and so has its last document."""
        self._document("".join(self.stored.rows))
        self.stored.rows, self.stored.done = [], True

    def write(self) -> None:
        """Put what there is into the cache, and note how far it goes."""
        with cache.writing(self.folder):
            if self._texts:
                data = json.dumps(self._texts, ensure_ascii=False).encode()
                write_atomically(part_file(self.folder, len(self.stored.parts)), data)
                self.stored.parts.append({"sha256": hashlib.sha256(data).hexdigest(), "end": self.bytes})
                self._texts = []
            self.stored.place = self.place()
            write_json(self.folder / "state.json", asdict(self.stored))

    def _document(self, text: str) -> None:
        if text.strip():
            self._texts.append(text)
            self.bytes += len(text.encode())

    def _full(self) -> None:
        if self.bytes - self.stored.bytes >= PART:
            self.write()
            log.info("%s: %.0f MB of text", self.folder.name, self.bytes / 1e6)


def _text(row: dict[str, Any], source: Source) -> str:
    """The text of a row."""
    return source.text(row)


def _revision(source: Source) -> str | None:
    """The newest commit of a data set.

    Raises:
        LabError: the hub does not have it, or cannot be reached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        return HfApi().dataset_info(source.dataset, timeout=TIMEOUT_S).sha
    except (RepositoryNotFoundError, HFValidationError):
        raise ConfigError(f"dataset {source.dataset!r} is not on the hub, or not for everybody") from None
    except Exception as error:
        raise LabError(
            f"{source.NAME} {source.dataset!r} is not in the cache and the hub cannot be reached "
            f"({type(error).__name__}): fetch it where there is a network, with: {source.HOW}"
        ) from error


def _open(source: Source, stored: Stored) -> Any:
    """The stream, at its place.

    Raises:
        LabError: ``datasets`` cannot open it.
    """
    from datasets import disable_progress_bars, load_dataset

    disable_progress_bars()
    options: dict[str, Any] = {"data_files": list(source.files)} if source.files else {"revision": stored.revision}
    try:
        stream = load_dataset(source.dataset, source.subset, split=source.split, streaming=True, **options)
        if stored.place is not None:
            stream.load_state_dict(stored.place)
    except Exception as error:
        raise LabError(
            f"{source.NAME} {source.dataset!r}, subset {source.subset}, split {source.split!r} cannot be opened "
            f"({type(error).__name__}): {one_line(error)}"
        ) from error
    return stream
