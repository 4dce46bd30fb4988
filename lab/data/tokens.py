"""Token streams on disk: each split encoded once, kept in the cache, and opened as a memory map.

A split's stream is ``EOT document EOT document EOT … EOT``: every token of every document follows something,
and nothing is dropped.
"""

import hashlib
import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.data import cache
from lab.data.corpus import SPLITS, Corpus, CorpusConfig, Document
from lab.data.corpus._encoded import Encoded
from lab.data.tokenizer import Tokenizer, TokenizerConfig
from lab.errors import ConfigError
from lab.files import sync_folder, write_synced
from lab.paths import cache_dir
from lab.progress import progress

log = logging.getLogger(__name__)

FORMAT = 1
"""Part of the hash: to be raised when the same text and tokenizer would give another stream."""

GROUP = 4_000_000
"""Characters of documents whose ids are held in memory before they are written."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenSet:
    """The encoded corpus, and what is needed to score it in bits per byte."""

    train: npt.NDArray[np.unsignedinteger[Any]]
    """The train stream, read-only: uint16 if the vocabulary has at most 65,536 entries, else uint32."""
    val: npt.NDArray[np.unsignedinteger[Any]]
    """The val stream."""
    test: npt.NDArray[np.unsignedinteger[Any]]
    """The test stream."""
    bytes: dict[str, int]
    """UTF-8 bytes of the documents of each split, end-of-text not counted; 0 where the text is not known."""
    documents: dict[str, int]
    """Documents of each split."""
    vocab_size: int
    """Entries of the tokenizer."""
    eot: int
    """Id of end-of-text."""
    data_hash: str
    """sha256 of the corpus."""
    tokenizer_hash: str
    """sha256 of the tokenizer."""
    hash: str
    """sha256 of corpus and tokenizer together."""
    tokenizer_file: Path
    """Where the tokenizer lies, for ``Tokenizer.load``."""
    note: str
    """How the corpus was split."""


def prepare(corpus: CorpusConfig, tokenizer: TokenizerConfig) -> TokenSet:
    """Open the token streams of a corpus, encoding it if the cache does not hold them.

    Raises:
        ConfigError: a setting of ``data`` or ``tokenizer`` is wrong; the message names it with its group.
        LabError: the corpus cannot be had, or the cache cannot be written.
    """
    with _named("data"):
        loaded = corpus.load()
    with _named("tokenizer"):
        built = loaded.tokenizer if isinstance(loaded, Encoded) else _tokenizer(tokenizer, loaded)
    both = hashlib.sha256(f"tokens {FORMAT} {loaded.hash} {built.hash}".encode()).hexdigest()
    folder = cache_dir() / "tokens" / both
    meta = _expected(loaded, built)
    found = _problem(folder, meta)
    if found:
        with cache.locked(folder):
            found = _problem(folder, meta)  # another process may have been first
            if found:
                if folder.exists():
                    log.warning("cached tokens %s are damaged (%s): they are made again", folder, found)
                _build(folder, corpus.name, loaded, built, meta)
    dtype = np.dtype(meta["dtype"])
    return TokenSet(
        **{name: np.memmap(folder / f"{name}.bin", dtype=dtype, mode="r") for name in SPLITS},
        bytes=meta["bytes"],
        documents=meta["documents"],
        vocab_size=built.vocab_size,
        eot=built.eot,
        data_hash=loaded.hash,
        tokenizer_hash=built.hash,
        hash=both,
        tokenizer_file=folder / "tokenizer.json",
        note=loaded.note,
    )


def _tokenizer(config: TokenizerConfig, corpus: Corpus) -> Tokenizer:
    """The tokenizer of a corpus of text."""
    return config.build([document.text for document in corpus.train], corpus.train_hash)


def cached_sets() -> Counter[str]:
    """How many token sets the cache holds of each choice of ``data``."""
    count: Counter[str] = Counter()
    for path in cache_dir().glob("tokens/*/meta.json"):
        if path.parent.name.startswith("."):  # being built
            continue
        with suppress(OSError, ValueError, KeyError, TypeError):
            count[str(json.loads(path.read_text(encoding="utf-8"))["corpus"])] += 1
    return count


@contextmanager
def _named(group: str) -> Iterator[None]:
    """Put the group in front of the key with which a component's error begins."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{group}.{error}") from error


def _expected(corpus: Corpus, tokenizer: Tokenizer) -> dict[str, Any]:
    """What an entry's meta.json says, except for the counts of tokens."""
    return {
        "format": FORMAT,
        "data_hash": corpus.hash,
        "tokenizer_hash": tokenizer.hash,
        "vocab_size": tokenizer.vocab_size,
        "eot": tokenizer.eot,
        "dtype": "uint16" if tokenizer.vocab_size <= 65536 else "uint32",
        "bytes": corpus.bytes,
        "documents": corpus.documents,
    }


def _problem(folder: Path, expected: dict[str, Any]) -> str:
    """Why the entry cannot be used, or an empty string."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        wrong = [key for key, value in expected.items() if meta[key] != value]
        if wrong:
            return f"meta.json has another {wrong[0]}"
        item = np.dtype(expected["dtype"]).itemsize
        for name in SPLITS:
            size, count = (folder / f"{name}.bin").stat().st_size, meta["tokens"][name]
            if count < 1 or size != count * item:
                return f"{name}.bin has {size} bytes for {count} tokens"
            if "sha256" in meta and _sha256(folder / f"{name}.bin") != meta["sha256"][name]:
                return f"{name}.bin was changed"
        tokenizer = (folder / "tokenizer.json").read_bytes()
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    good = hashlib.sha256(tokenizer).hexdigest() == expected["tokenizer_hash"]
    return "" if good else "tokenizer.json was changed"


def _build(folder: Path, name: str, corpus: Corpus, tokenizer: Tokenizer, meta: dict[str, Any]) -> None:
    """Encode the corpus into a temporary folder and put it in place; the lock is held."""
    total = sum(len(document.text) for split in SPLITS for document in corpus.split(split))
    with cache.writing(folder), cache.new_folder(folder) as temporary:
        counts, sums, begun = {}, {}, 0
        with progress("tokens: characters encoded", total) as bar:
            for split in SPLITS:
                part = corpus.split(split)
                report = partial(_shift, bar.update, begun)
                ids = corpus.ids(split) if isinstance(corpus, Encoded) else _stream(part, tokenizer, report)
                path = temporary / f"{split}.bin"
                counts[split], sums[split] = _write_ids(path, ids, np.dtype(meta["dtype"]))
                begun += sum(len(document.text) for document in part)
        write_synced(temporary / "tokenizer.json", tokenizer.serialised.encode())
        found = {"tokens": counts, "sha256": sums, "corpus": name, "note": corpus.note}
        write_synced(temporary / "meta.json", json.dumps({**meta, **found}, indent=1).encode())
        sync_folder(temporary)
        old = temporary.with_name(f"{temporary.name}.old")
        if folder.exists():
            folder.rename(old)
        temporary.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
        sync_folder(folder.parent)


def _stream(
    documents: Sequence[Document], tokenizer: Tokenizer, report: Callable[[int], None]
) -> Iterator[npt.NDArray[np.uint32]]:
    """A split's ids, in arrays: end-of-text, then each document with an end-of-text after it."""
    eot = np.array([tokenizer.eot], dtype=np.uint32)
    yield eot
    done = start = 0
    while start < len(documents):
        stop, size = start, 0
        while stop < len(documents) and size < GROUP:
            size += len(documents[stop].text)
            stop += 1
        texts = [document.text for document in documents[start:stop]]
        for ids in tokenizer.encode_batch(texts, partial(_shift, report, done)):
            yield ids
            yield eot
        done, start = done + size, stop


def _shift(report: Callable[[int], None], before: int, done: int) -> None:
    """Report what is done of a part as what is done of the whole."""
    report(before + done)


def _write_ids(path: Path, arrays: Iterator[npt.NDArray[np.uint32]], dtype: np.dtype[Any]) -> tuple[int, str]:
    """Write arrays one after another; the number of ids, and the sha256 of the file."""
    count, digest = 0, hashlib.sha256()
    with path.open("wb") as file:
        for array in arrays:
            data = array.astype(dtype).tobytes()
            file.write(data)
            digest.update(data)
            count += array.size
        file.flush()
        os.fsync(file.fileno())
    return count, digest.hexdigest()


def _sha256(path: Path) -> str:
    """Of a file; takes less time than the corpus took that was read and hashed before."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
