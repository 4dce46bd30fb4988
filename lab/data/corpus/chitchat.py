"""Typed talk of two people: the conversations of the PyPI package ``chitchat-dataset``.

2,982 conversations of 500 characters or more, 12,691,517 bytes of plain ASCII, collected by a university's
laboratory in 2018. Each turn is a line, opened by who speaks: ``A: `` or ``B: ``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.data.corpus import Corpus, CorpusConfig, CorpusFacts, Document, split_by_id
from lab.data.wheel import Wheel

WHEEL = Wheel(
    project="chitchat-dataset",
    version="0.9.0",
    sha256="7bf89f36645e2d5ec87d53370c8e851b5a688479c7beb7079cb4c87fc5acea3e",
    size="8.1 MB",
)

FACTS = CorpusFacts(
    size="12.7 MB",
    documents="2,982",
    licence="MIT",
    source=f"PyPI {WHEEL.pin}: conversations typed in 2018",
    wheels=(WHEEL,),
)

LEAST = 500
"""Characters of the shortest conversation that is taken."""


@dataclass(frozen=True, kw_only=True)
class Config(CorpusConfig):
    """Conversations of two people."""

    def load(self) -> Corpus:
        """Read the wheel, fetched once into the cache.

        Raises:
            LabError: the wheel cannot be had.
        """
        note = f"{WHEEL.project} {WHEEL.version}, split by the sha256 of each conversation's id"
        return Corpus(**split_by_id(documents()), note=note)


def documents() -> list[Document]:
    """The conversations, by the ids of the package."""
    with WHEEL.open() as archive:
        talks = json.loads(archive.read("chitchat_dataset/dataset.json"))
    made = [Document(key, talk(each)) for key, each in talks.items()]
    return [document for document in made if len(document.text) >= LEAST]


def talk(conversation: Mapping[str, Any]) -> str:
    """A conversation, one turn a line."""
    letters: dict[str, str] = {}
    lines = []
    for turn in conversation["messages"]:
        who = letters.setdefault(turn[0]["sender"], "AB"[len(letters) % 2])
        lines.append(f"{who}: " + " ".join(message["text"].strip() for message in turn))
    return "\n".join(lines)
