"""Byte-level byte pair encoding with the pre-tokenisation of GPT-2, learned from the train split.

Sennrich et al., arXiv:1508.07909, section 3.2, on bytes as in Radford et al. 2019 ("Language models are
unsupervised multitask learners"), section 2.2. No space is put in front of a text. All 256 bytes are in the
vocabulary, so any text can be encoded.
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.component import check, check_number
from lab.data.cache import locked, replace_file
from lab.data.tokenizer import END_OF_TEXT, Tokenizer, TokenizerConfig, train_on
from lab.paths import cache_dir
from lab.progress import progress

log = logging.getLogger(__name__)

FORMAT = 1
"""Part of the cache key: to be raised when the same settings and text would give another tokenizer."""


@dataclass(frozen=True, kw_only=True)
class Config(TokenizerConfig):
    """How many entries to learn."""

    vocab_size: int
    """Entries wanted: 256 bytes, end-of-text, then merges. 257 to 1,000,000; a short text may give fewer."""

    def __post_init__(self) -> None:
        check(type(self.vocab_size) is int, "vocab_size", self.vocab_size, "must be a whole number")
        check_number("vocab_size", self.vocab_size, least=257, most=1_000_000)

    def build(self, texts: Sequence[str], texts_hash: str) -> Tokenizer:
        """Read the tokenizer from the cache, or learn it and leave it there.

        Raises:
            LabError: the cache cannot be written.
        """
        key = hashlib.sha256(f"bpe {FORMAT} {self.vocab_size} {texts_hash}".encode()).hexdigest()
        path = cache_dir() / "tokenizers" / f"{key}.json"
        cached = self._cached(path)
        if isinstance(cached, Tokenizer):
            return cached
        with locked(path):
            cached = self._cached(path)  # another process may have been first
            if isinstance(cached, Tokenizer):
                return cached
            if path.exists():
                log.warning("cached tokenizer %s is damaged (%s): it is learned again", path, cached)
            tokenizer = self._learn(texts)
            replace_file(_sum_of(path), tokenizer.hash.encode())  # first: a tokenizer is never without
            replace_file(path, tokenizer.serialised.encode())
        return tokenizer

    def _cached(self, path: Path) -> Tokenizer | str:
        """The cached tokenizer, or why there is none."""
        try:
            tokenizer = Tokenizer.load(path)
            if _sum_of(path).exists() and _sum_of(path).read_text(encoding="utf-8") != tokenizer.hash:
                return "it was changed"
        except (OSError, ValueError) as error:
            return str(error)
        return tokenizer if tokenizer.vocab_size <= self.vocab_size else f"{tokenizer.vocab_size} entries"

    def _learn(self, texts: Sequence[str]) -> Tokenizer:
        from tokenizers import Tokenizer as Inner
        from tokenizers import decoders, models, pre_tokenizers, trainers

        inner = Inner(models.BPE())
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        inner.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            special_tokens=[END_OF_TEXT],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        train_on(inner, _counted(texts), trainer)
        tokenizer = Tokenizer(inner)
        if tokenizer.vocab_size < self.vocab_size:
            wanted, got = self.vocab_size, tokenizer.vocab_size
            log.warning("tokenizer.vocab_size %d: the train text is so short that it gives only %d", wanted, got)
        return tokenizer


def _sum_of(path: Path) -> Path:
    """Where the hash of a cached tokenizer lies; those of earlier versions have none."""
    return path.with_name(f"{path.name}.sha256")


def _counted(texts: Sequence[str]) -> Iterator[str]:
    """The texts, with progress in documents read; the merges follow, of which the library tells nothing."""
    with progress("tokenizer: train documents read", len(texts)) as bar:
        for done, text in enumerate(texts, start=1):
            yield text
            bar.update(done)
