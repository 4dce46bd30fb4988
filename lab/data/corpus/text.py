"""Your own text files, read with Hugging Face ``datasets`` and cut into train, val and test.

The loader named ``text`` of ``datasets`` turns CR LF into LF and takes ``[`` and ``*`` in a file's name for a
pattern, so a generator that keeps every byte feeds the files to it.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.component import check
from lab.data.corpus import SPLITS, Corpus, CorpusConfig, CorpusFacts, Document, split_by_id
from lab.errors import ConfigError

FACTS = CorpusFacts(
    size="yours",
    documents="one a file",
    licence="yours",
    source="UTF-8 files of your own: data.file=PATH or data.file=[PATH,PATH]",
)

CUTS = (0.90, 0.95)
"""Where a file is cut, in fractions of its length: train up to the first, val up to the second, then test."""

SLACK = 0.02
"""How far a cut may move to meet a line end, as a fraction of the length; less than half of a part."""


@dataclass(frozen=True, kw_only=True)
class Config(CorpusConfig):
    """One file, cut by position, or several, split by document."""

    file: list[str]
    """Paths of UTF-8 text files, from the current directory. One path may be given without brackets."""

    def load(self) -> Corpus:
        """Read and split the files.

        Raises:
            ConfigError: no file is set, or one is missing, unreadable, empty, not text, or too short to cut.
        """
        if not self.file:
            raise ConfigError("file is not set: give a path, as in data.file=book.txt")
        documents = _read_all(self.file)
        if len(documents) > 1:
            parts = split_by_id(documents)
            if all(parts[name] for name in SPLITS):
                return Corpus(**parts, note=f"{len(documents)} files, split by the sha256 of each file's name")
        cut = [_cut(document, file) for document, file in zip(documents, self.file, strict=True)]
        pieces = {name: tuple(part[i] for part in cut) for i, name in enumerate(SPLITS)}
        what = "one file" if len(documents) == 1 else f"{len(documents)} files (too few to split by document), each"
        return Corpus(**pieces, note=f"{what} cut by position at 90 % and 95 %, at line ends where there are any")


def _read_all(files: Sequence[str]) -> list[Document]:
    """One document a file, in the order given, its id the file's name."""
    paths = [_regular(file) for file in files]
    seen: set[Path] = set()
    for file, path in zip(files, paths, strict=True):
        check(path.resolve() not in seen, "file", file, "is given twice: its text would be in train and in val")
        seen.add(path.resolve())
    ids: dict[str, int] = {}
    documents = []
    for path, text in zip(paths, _texts(files), strict=True):
        count = ids[path.name] = ids.get(path.name, 0) + 1
        documents.append(Document(path.name if count == 1 else f"{path.name} ({count})", text))
    return documents


def _regular(file: str) -> Path:
    """The path of a file that exists and is no folder and no device."""
    try:
        path = Path(file).expanduser()
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"file '{file}' does not exist") from None
    except (OSError, ValueError, RuntimeError) as error:  # ~nobody/, a NUL in the name, a locked folder
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"file '{file}' cannot be read: {reason}") from error
    check(not stat.S_ISDIR(mode), "file", file, "is a folder, not a text file")
    check(stat.S_ISREG(mode), "file", file, "is not a regular file")
    return path


def _texts(files: Sequence[str]) -> list[str]:
    """The texts, streamed through ``datasets`` without a network and without a copy in its cache."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from datasets import IterableDataset, config, disable_progress_bars

    disable_progress_bars()
    usual = config.HF_DATASETS_CACHE
    with TemporaryDirectory(prefix="lab-datasets-") as scratch:
        config.HF_DATASETS_CACHE = scratch  # a stream leaves a lock file there, and nothing else
        try:
            rows = IterableDataset.from_generator(_rows, gen_kwargs={"files": list(files)})
            return [row["text"] for row in rows]
        finally:
            config.HF_DATASETS_CACHE = usual


def _rows(files: list[str]) -> Iterator[dict[str, str]]:
    for file in files:
        yield {"text": _read(file)}


def _read(file: str) -> str:
    """The exact text of one file."""
    try:
        data = Path(file).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"file '{file}' cannot be read: {error.strerror}") from error
    check(bool(data), "file", file, "is empty")
    nul = data.find(b"\0")
    check(nul < 0, "file", file, f"is not a text file: NUL at byte {nul}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"0x{data[error.start]:02x} at byte {error.start}"
        raise ConfigError(f"file '{file}' is not UTF-8 text: {found}; convert it to UTF-8") from error
    check(bool(text.strip()), "file", file, "holds nothing but white space")
    return text


def _cut(document: Document, file: str) -> list[Document]:
    """Cut one document in three by position.

    Raises:
        ConfigError: a part would hold nothing but white space.
    """
    text = document.text
    first, second = (_line_end(text, at) for at in CUTS)
    parts = [text[:first], text[first:second], text[second:]]
    short = f"is too short to cut into train, val and test: {len(text)} characters"
    check(all(part.strip() for part in parts), "file", file, short)
    return [Document(f"{document.id}/{name}", part) for name, part in zip(SPLITS, parts, strict=True)]


def _line_end(text: str, fraction: float) -> int:
    """The position after the line end nearest to a fraction of the text; else to a space; else there."""
    want, slack = int(len(text) * fraction), int(len(text) * SLACK)
    for mark in ("\n", " "):
        before = text.rfind(mark, want - slack, want) + 1
        after = text.find(mark, want, want + slack) + 1
        near = [at for at in (before, after) if at > 0]
        if near:
            return min(near, key=lambda at: abs(at - want))
    return want
