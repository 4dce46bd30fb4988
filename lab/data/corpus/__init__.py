"""The contract of group ``data``: a config that loads a corpus, which is three splits of documents."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from lab.component import Component, check_number
from lab.data.ngrams import Ngrams
from lab.data.wheel import Wheel

SPLITS = ("train", "val", "test")
"""The names of the splits, in the order in which they are hashed and stored."""


@dataclass(frozen=True)
class Document:
    """One text, with a name to split it by."""

    id: str
    """Unique in its corpus, and the same on every machine."""
    text: str
    """The text itself, unchanged: line ends too."""


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The documents of each split, in a fixed order."""

    train: tuple[Document, ...]
    """What the tokenizer and the model are trained on."""
    val: tuple[Document, ...]
    """What is scored while training and compared between variants."""
    test: tuple[Document, ...]
    """What is scored once, at the end."""
    note: str
    """How the splits came about, in one sentence for the reader of a result."""

    def split(self, name: str) -> tuple[Document, ...]:
        """The documents of ``train``, ``val`` or ``test``."""
        return {"train": self.train, "val": self.val, "test": self.test}[name]

    @cached_property
    def hash(self) -> str:
        """sha256 over split names and texts, in order; no path and no file name has a part in it."""
        digest = hashlib.sha256()
        for name in SPLITS:
            digest.update(f"{name} {self._measured[name][0]}\n".encode())
        return digest.hexdigest()

    @cached_property
    def train_hash(self) -> str:
        """sha256 over the texts of the train split."""
        return self._measured["train"][0]

    @property
    def bytes(self) -> dict[str, int]:
        """UTF-8 bytes of each split's documents; 0 where the text is not known."""
        return {name: n_bytes for name, (_, n_bytes) in self._measured.items()}

    @property
    def documents(self) -> dict[str, int]:
        """Documents of each split."""
        return {name: len(self.split(name)) for name in SPLITS}

    @cached_property
    def _measured(self) -> dict[str, tuple[str, int]]:
        """The hash and the bytes of each split, for which its texts are encoded once."""
        return {name: hash_texts(document.text for document in self.split(name)) for name in SPLITS}


@dataclass(frozen=True, kw_only=True)
class CorpusFacts:
    """What ``lab data list`` says of a corpus. Each corpus module has one, named ``FACTS``."""

    size: str
    """Size of the text, for people: ``11.9 MB``."""
    documents: str
    """Number of documents, for people: ``237``."""
    licence: str
    """Terms of the text."""
    source: str
    """Where the text comes from."""
    package: str | None = None
    """The installed distribution that holds the text, if one does."""
    wheels: tuple[Wheel, ...] = ()
    """The pinned files that the text is read from, which lie in the cache once they were fetched."""


@dataclass(frozen=True, kw_only=True)
class CorpusConfig(Component, ABC):
    """Base of the ``Config`` of each choice of ``data``. Runs of earlier versions lack what has a default."""

    ngram_rate: float = 0.0
    """Share of training windows into which a run of one n-gram is planted, 0 to 1: see ``lab.data.ngrams``."""
    ngram_mask: bool = False
    """Whether training windows that hold such a run, planted or not, are left out of the loss."""

    def __post_init__(self) -> None:
        check_number("ngram_rate", self.ngram_rate, least=0, most=1)

    def ngrams(self, vocab_size: int) -> Ngrams | None:
        """What is done to training windows; None where they stay as the text has them."""
        if self.ngram_rate == 0 and not self.ngram_mask:
            return None
        return Ngrams(rate=self.ngram_rate, mask=self.ngram_mask, vocab_size=vocab_size)

    @abstractmethod
    def load(self) -> Corpus:
        """Read the text.

        Raises:
            LabError: the text cannot be had.
            ConfigError: a setting is wrong; the message names the field without its group.
        """


def hash_texts(texts: Iterable[str]) -> tuple[str, int]:
    """sha256 over texts in order, each with its length in front, so that no two lists collide; and their bytes."""
    digest, n_bytes = hashlib.sha256(), 0
    for text in texts:
        data = text.encode()
        n_bytes += len(data)
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest(), n_bytes


def split_by_id(documents: Iterable[Document]) -> dict[str, tuple[Document, ...]]:
    """Deal documents to splits by the sha256 of their ids: 1 in 20 to val, 1 in 20 to test, else train.

    No seed and no position has a part in it, so a document stays in its split when others come or go.
    """
    parts: dict[str, list[Document]] = {name: [] for name in SPLITS}
    for document in documents:
        bucket = int(hashlib.sha256(document.id.encode()).hexdigest(), 16) % 20
        parts[{0: "val", 1: "test"}.get(bucket, "train")].append(document)
    return {name: tuple(part) for name, part in parts.items()}
