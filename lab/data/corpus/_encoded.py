"""A corpus that comes as token ids, of whose text nothing is known."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.data.corpus import SPLITS, Corpus, Document
from lab.data.tokenizer import END_OF_TEXT, Tokenizer

CHUNK = 4_000_000
"""Ids that are held in memory at once."""


@dataclass(frozen=True, kw_only=True)
class Encoded(Corpus):
    """Ids instead of documents."""

    shards: Mapping[str, Sequence[npt.NDArray[Any]]]
    """The ids of each split, one array after another."""
    tokenizer: Tokenizer
    """That knows the ids by their numbers."""
    train: tuple[Document, ...] = ()
    val: tuple[Document, ...] = ()
    test: tuple[Document, ...] = ()

    def ids(self, split: str) -> Iterator[npt.NDArray[np.uint32]]:
        """A split's ids, in arrays."""
        for shard in self.shards[split]:
            for first in range(0, len(shard), CHUNK):
                yield shard[first : first + CHUNK].astype(np.uint32)

    @cached_property
    def documents(self) -> dict[str, int]:
        """Ends of text in each split."""
        eot = self.tokenizer.eot
        return {name: sum(int((part == eot).sum()) for part in self.ids(name)) for name in SPLITS}

    @cached_property
    def _measured(self) -> dict[str, tuple[str, int]]:
        """A hash of each split's ids, however wide they were; of bytes nothing is known."""
        found = {}
        for name in SPLITS:
            digest = hashlib.sha256(b"ids\n")
            for part in self.ids(name):
                digest.update(part.astype("<u4").tobytes())
            found[name] = (digest.hexdigest(), 0)
        return found


def numbered(vocab_size: int, eot: int) -> Tokenizer:
    """A tokenizer that writes ids as ``<17> <4>``, and reads no other text."""
    from tokenizers import Tokenizer as Inner

    words = {END_OF_TEXT if number == eot else f"<{number}>": number for number in range(vocab_size)}
    model = {"type": "WordLevel", "vocab": words, "unk_token": ""}
    made: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    return Tokenizer(Inner.from_str(json.dumps(made)))
