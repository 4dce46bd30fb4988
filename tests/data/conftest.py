"""What the tests of the data layer share: a cache of their own and a corpus in memory."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.data.corpus import Corpus, CorpusConfig, Document


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LAB_CACHE", str(folder))
    return folder


@dataclass(frozen=True, kw_only=True)
class Memory(CorpusConfig):
    train: tuple[str, ...] = ("the cat sat on the mat\r\n" * 40, "the dog sat on the log\n" * 40)
    val: tuple[str, ...] = ("the cat\n",)
    test: tuple[str, ...] = ("the dog",)

    def load(self) -> Corpus:
        def part(texts: tuple[str, ...]) -> tuple[Document, ...]:
            return tuple(Document(str(i), text) for i, text in enumerate(texts))

        return Corpus(train=part(self.train), val=part(self.val), test=part(self.test), note="in memory")


@pytest.fixture
def memory() -> type[Memory]:
    return Memory
