"""The contract of group ``tokenizer``: a config that builds a tokenizer from the train split."""

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.component import Component
from lab.errors import LabError

END_OF_TEXT = "<|endoftext|>"
"""The one special token: it stands between documents. In a text these characters are ordinary ones."""

PIECE = 200_000
"""Characters after which a long text is encoded in another piece."""

BATCH = 2_000_000
"""Characters encoded at once; bounds the memory, which is some 100 bytes a token while encoding."""

_CUT = re.compile(r"[\n ](?=\S)")

_THREADS = "TOKENIZERS_PARALLELISM"
_GIVEN = os.environ.get(_THREADS)


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Component, ABC):
    """Base of the ``Config`` of each choice of ``tokenizer``."""

    @abstractmethod
    def build(self, texts: Sequence[str], texts_hash: str) -> "Tokenizer":
        """Make the tokenizer, from the texts of the train split if it learns; ``texts_hash`` is their sha256.

        Raises:
            LabError: the cache cannot be written.
        """


class Tokenizer:
    """A byte-level ``tokenizers.Tokenizer`` with one special token. Any text comes back exactly."""

    def __init__(self, inner: Any) -> None:
        inner.encode_special_tokens = True  # not part of its JSON
        self._inner = inner
        eot = inner.token_to_id(END_OF_TEXT)
        assert eot is not None, f"a tokenizer without {END_OF_TEXT}"
        self.vocab_size: int = inner.get_vocab_size()
        self.eot: int = eot

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a tokenizer that ``save`` wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is not such a tokenizer, or was changed.
        """
        from tokenizers import Tokenizer as Inner

        text = path.read_text(encoding="utf-8")
        try:
            inner = Inner.from_str(text)
        except Exception as error:  # the library raises plain Exception
            raise ValueError(f"not a tokenizer: {error}") from error
        if inner.token_to_id(END_OF_TEXT) is None or inner.to_str() != text:
            raise ValueError("not a tokenizer as it was saved")
        return cls(inner)

    def save(self, path: Path) -> None:
        """Write the tokenizer in the ``tokenizers`` library's own format."""
        path.write_text(self.serialised, encoding="utf-8", newline="")

    @cached_property
    def serialised(self) -> str:
        """The tokenizer as JSON, the same for the same settings and train text."""
        return str(self._inner.to_str())

    @cached_property
    def hash(self) -> str:
        """sha256 of the serialised form."""
        return hashlib.sha256(self.serialised.encode()).hexdigest()

    def encode_batch(
        self, texts: Sequence[str], report: Callable[[int], None] = lambda done: None
    ) -> list[npt.NDArray[np.uint32]]:
        """The ids of each text, without end-of-text around them; ``report`` hears of characters done."""
        parts: list[list[npt.NDArray[np.uint32]]] = [[] for _ in texts]
        done = 0
        for group in _groups(texts):
            with _parallel():
                encoded = self._encode([piece for _, piece in group])
            for (index, piece), encoding in zip(group, encoded, strict=True):
                parts[index].append(np.array(encoding.ids, dtype=np.uint32))
                done += len(piece)
            report(done)
        empty = np.empty(0, dtype=np.uint32)
        return [np.concatenate(part) if part else empty for part in parts]

    def _encode(self, texts: list[str]) -> list[Any]:
        """What the library makes of texts; of a byte-level tokenizer it takes any."""
        try:
            return list(self._inner.encode_batch_fast(texts, add_special_tokens=False))
        except Exception as error:  # the library raises plain Exception
            message = "this tokenizer reads nothing but numbers of tokens, as in '<17> <4>': its text is not known"
            raise LabError(message) from error

    def decode(self, ids: Sequence[int] | npt.NDArray[Any]) -> str:
        """The text of ids; end-of-text shows as ``<|endoftext|>``, a character cut in two as U+FFFD."""
        return str(self._inner.decode([int(i) for i in ids], skip_special_tokens=False))


def train_on(inner: Any, texts: Iterator[str], trainer: Any) -> None:
    """Train a ``tokenizers.Tokenizer`` on texts, on all cores."""
    with _parallel():
        inner.train_from_iterator(texts, trainer=trainer)


def pieces(text: str) -> Iterator[str]:
    """Cut a long text where the pre-tokenisation of GPT-2 cuts in any case, so that the ids are the same.

    In its pattern the last newline or space before a word always begins a new token.
    """
    start = 0
    while len(text) - start > PIECE:
        found = _CUT.search(text, start + PIECE)
        if found is None:
            break
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]


def _groups(texts: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
    """Pieces with the index of their text, about ``BATCH`` characters at a time."""
    group: list[tuple[int, str]] = []
    size = 0
    for index, text in enumerate(texts):
        for piece in pieces(text):
            group.append((index, piece))
            size += len(piece)
            if size >= BATCH:
                yield group
                group, size = [], 0
    if group:
        yield group


@contextmanager
def _parallel() -> Iterator[None]:
    """Use all cores unless the user said otherwise, and afterwards none.

    A process that has used the library's threads warns when it forks, unless they are switched off.
    """
    if _GIVEN is not None:
        yield
        return
    os.environ[_THREADS] = "true"
    try:
        yield
    finally:
        os.environ[_THREADS] = "false"
