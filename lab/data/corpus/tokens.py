"""Ready shards of token ids: nanoGPT's layout, unsigned integers of 2 or 4 bytes in a row, without a header.

The text is not known, so ``tokenizer`` is not used, there are no bits per byte, and what a model writes are numbers
of tokens. Shards are taken in the order of their names where a pattern is given, else as they stand.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.component import check, check_number
from lab.data.corpus import SPLITS, CorpusConfig, CorpusFacts
from lab.data.corpus._encoded import CHUNK, Encoded, numbered
from lab.errors import ConfigError

FACTS = CorpusFacts(
    size="yours",
    documents="unknown",
    licence="yours",
    source="token ids of your own, uint16 or uint32: data.file=*.bin data.vocab_size=N",
)

NAMED = {"val": re.compile(r"(?<![a-z])val(id|idation)?(?![a-z])"), "test": re.compile(r"(?<![a-z])test(?![a-z])")}
"""Names of files that are a split of their own; all others are for training."""

SHARE = 20
"""Of how many training tokens one is held out, where no file is named for a split."""

HELD_OUT = 200_000
"""The most tokens that are held out: a validation would take too long."""

LLM_C = 20240520
"""What a shard of llm.c begins with: a header that nanoGPT's do not have."""


class Width(StrEnum):
    """How wide a token is in the files."""

    auto = "auto"
    uint16 = "uint16"
    uint32 = "uint32"


@dataclass(frozen=True, kw_only=True)
class Config(CorpusConfig):
    """Token ids that were made elsewhere."""

    file: list[str]
    """Paths or patterns of files, as ``*.bin``, from the current directory."""
    vocab_size: int
    """Entries of the tokenizer that made them: every id is below it."""
    dtype: Width
    """How wide an id is; ``auto``: uint16 where the vocabulary has at most 65,536 entries, else uint32."""
    eot: int | None
    """Id of end-of-text; null: the last of the vocabulary, as GPT-2 has it."""
    tokenizer_hash: str | None
    """Which tokenizer that was, in words of your own; runs that differ in it are not the same."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("vocab_size", self.vocab_size, least=2, most=2**20)
        if self.eot is not None:
            check_number("eot", self.eot, least=0, below=self.vocab_size)

    def load(self) -> Encoded:
        """Open the files.

        Raises:
            ConfigError: a file is missing, empty, no whole number of ids long, or holds one out of range.
        """
        narrow = self.dtype == Width.uint16 or (self.dtype == Width.auto and self.vocab_size <= 1 << 16)
        dtype = np.dtype("<u2" if narrow else "<u4")
        shards: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in SPLITS}
        for file in _files(self.file):
            shards[split_of(file)].append(self._open(file, dtype))
        check(bool(shards["train"]), "file", ", ".join(self.file), "holds no training tokens, by the files' names")
        taken = {name: _cut(shards["train"]) for name in ("test", "val") if not shards[name]}
        splits = {**shards, **taken}
        check(all(splits.values()), "file", ", ".join(self.file), "is too short to take val and test from its end")
        eot = self.vocab_size - 1 if self.eot is None else self.eot
        held = " and ".join(f"{name} from the end" for name in SPLITS if name in taken) or "each split in its files"
        note = f"{sum(map(len, shards.values()))} shards of ready {dtype.name} tokens, {held}"
        return Encoded(shards=splits, tokenizer=numbered(self.vocab_size, eot), note=note)

    def _open(self, file: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """A shard, every id of it in range."""
        try:
            size = Path(file).stat().st_size
            check(size > 0, "file", file, "is empty")
            whole = size % dtype.itemsize == 0
            check(whole, "file", file, f"has {size} bytes, which is no whole number of {dtype.name} tokens")
            ids: npt.NDArray[Any] = np.memmap(file, dtype=dtype, mode="r")
        except OSError as error:
            raise ConfigError(f"file {file!r} cannot be read: {error.strerror or error}") from error
        if size >= 4 and int.from_bytes(ids[: 4 // dtype.itemsize].tobytes(), "little") == LLM_C:
            raise ConfigError(f"file {file!r} has a header of llm.c: take away its first 1024 bytes")
        for first in range(0, len(ids), CHUNK):
            part = ids[first : first + CHUNK]
            if int(part.max()) >= self.vocab_size:
                at = first + int(np.argmax(part >= self.vocab_size))
                text = f"holds token {ids[at]} at place {at}, and data.vocab_size is {self.vocab_size}"
                raise ConfigError(f"file {file!r} {text}{_other_width(dtype)}")
        return ids


def split_of(file: str) -> str:
    """The split that a file is, by its name: ``val.bin``, ``fineweb_val_00.bin``, ``test-1.bin``; else train."""
    name = Path(file).stem.lower()
    return next((split for split, pattern in NAMED.items() if pattern.search(name)), "train")


def _files(patterns: Sequence[str]) -> Iterator[str]:
    """The files, those of a pattern sorted."""
    check(bool(patterns), "file", "", "is not set: give shards, as in data.file=*.bin")
    seen: set[Path] = set()
    for pattern in patterns:
        path = Path(pattern).expanduser()
        found = [str(path)] if path.exists() else sorted(glob(str(path)))  # noqa: PTH207
        check(bool(found), "file", pattern, "does not exist")
        for file in found:
            check(not Path(file).is_dir(), "file", file, "is a folder, not a file")
            check(Path(file).resolve() not in seen, "file", file, "is given twice")
            seen.add(Path(file).resolve())
            yield file


def _cut(shards: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Take tokens away from the end of the last shard."""
    size = min(sum(map(len, shards)) // SHARE, HELD_OUT, len(shards[-1]) // 2)
    if size == 0:
        return []
    shards[-1], end = shards[-1][:-size], shards[-1][-size:]
    return [end]


def _other_width(dtype: np.dtype[Any]) -> str:
    other = "uint32" if dtype.itemsize == 2 else "uint16"
    return f"; if a token is wider or narrower there: data.dtype={other}"
