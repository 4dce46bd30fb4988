"""What corpora have in common that are streamed from the hub."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.component import check, check_number
from lab.data import hub
from lab.data.corpus import SPLITS, Corpus, CorpusConfig, Document, split_by_id
from lab.errors import ConfigError

TOKEN = 4
"""Bytes of text that ``tokens`` counts as a token, so that the text is the same whatever the tokenizer."""

HELD_OUT = 500_000
"""Bytes of text after which val takes no more documents, and test none: a validation would take too long."""


@dataclass(frozen=True, kw_only=True)
class StreamedConfig(CorpusConfig):
    """The first documents of a data set on the hub."""

    dataset: str
    """Name on the hub."""
    subset: str | None
    """Configuration of the data set; null: the only one."""
    split: str
    """Split of the data set from which all is taken: train, val and test are made of it by document."""
    field: str
    """Column that holds the text."""
    begins: str | None
    """Pattern of a row that begins a document, where documents have several rows; null: each row is one."""
    tokens: int | None
    """Up to so many tokens, at four bytes of text each; null: the whole split."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens is not None:
            check_number("tokens", self.tokens, least=1)

    def source(self) -> hub.Source:
        """Where documents come from.

        Raises:
            ConfigError: a setting is wrong.
        """
        return self.source_of([])

    def source_of(self, files: Sequence[str]) -> hub.Source:
        """The same with local files."""
        paths = [Path(file).expanduser() for file in files]
        for file, path in zip(files, paths, strict=True):
            check(path.is_file(), "file", file, "is not a file")
        return hub.Source(
            dataset=self.dataset,
            subset=self.subset,
            split=self.split,
            field=self.field,
            begins=self.begins,
            files=tuple(str(path.resolve()) for path in paths),
        )

    @property
    def n_bytes(self) -> int | None:
        """Bytes of text that are asked for; None: all there are."""
        return None if self.tokens is None else TOKEN * self.tokens

    def load(self) -> Corpus:
        """Read the documents from the cache, into which they are fetched if need be.

        Raises:
            LabError: they cannot be fetched.
            ConfigError: a setting is wrong, or there are too few documents to split.
        """
        source = self.source()
        hub.fetch(source, self.n_bytes)
        texts = hub.documents(source, self.n_bytes)
        parts = split_by_id(Document(str(number), text) for number, text in enumerate(texts))
        held_out = {name: _first(parts[name]) for name in ("val", "test")}
        total = sum(map(len, parts.values()))
        if not all(parts.values()):
            short = ", ".join(name for name in SPLITS if not parts[name])
            raise ConfigError(f"dataset {self.dataset!r}: {total} documents are too few, none is in {short}")
        note = (
            f"the first {total} documents of {self.dataset}, split by the sha256 of their numbers; "
            f"of val and test the first {HELD_OUT / 1e6:.1f} MB"
        )
        return Corpus(train=parts["train"], **held_out, note=note)


def _first(documents: Sequence[Document]) -> tuple[Document, ...]:
    """The documents up to the one with which they come to ``HELD_OUT``."""
    taken, size = [], 0
    for document in documents:
        if size >= HELD_OUT:
            break
        taken.append(document)
        size += len(document.text.encode())
    return tuple(taken)
