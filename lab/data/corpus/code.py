"""Python: the source files of the PyPI package ``sympy``, its tests left out.

840 files, 16,623,491 bytes; each file is a document, and its path the id that it is split by. The standard library
would need no download, but is another text with each version of Python.
"""

from dataclasses import dataclass

from lab.data.corpus import Corpus, CorpusConfig, CorpusFacts, Document, split_by_id
from lab.data.wheel import Wheel

WHEEL = Wheel(
    project="sympy",
    version="1.14.0",
    sha256="e091cc3e99d2141a0ba2847328f5479b05d94a6635cb96148ccb3f34671bd8f5",
    size="6.3 MB",
)

FACTS = CorpusFacts(
    size="16.6 MB",
    documents="840",
    licence="BSD-3-Clause",
    source=f"PyPI {WHEEL.pin}: Python source without tests",
    wheels=(WHEEL,),
)


@dataclass(frozen=True, kw_only=True)
class Config(CorpusConfig):
    """Python source files."""

    def load(self) -> Corpus:
        """Read the wheel, fetched once into the cache.

        Raises:
            LabError: the wheel cannot be had.
        """
        return Corpus(
            **split_by_id(documents()),
            note=f"{WHEEL.project} {WHEEL.version}, split by the sha256 of each file's path",
        )


def documents() -> list[Document]:
    """The files that are not empty, by their paths."""
    with WHEEL.open() as archive:
        names = [name for name in sorted(archive.namelist()) if name.endswith(".py") and "/tests/" not in name]
        made = [Document(name, archive.read(name).decode("utf-8")) for name in names]
    return [document for document in made if document.text]
