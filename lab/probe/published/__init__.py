"""Published questions, streamed from the hub into the cache, or read from local files; none is asked unless named.

A set is one file: the first line of its docstring says what it asks, and its class ``Asked`` says where the
questions lie and what the answers come to. A run is asked all of them, or as many as one wants, drawn by a seed.
"""

import importlib
import json
import pkgutil
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from lab.data import hub
from lab.errors import ConfigError
from lab.probe import Choice, Source
from lab.probe._score import Reading

FORMATS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv"}
"""The format of local files, by the end of their name."""

Row = dict[str, str]
"""A question as it is published."""

Read = Callable[[Sequence[Choice]], list[Reading]]
"""Has the model read items."""


@dataclass(frozen=True, kw_only=True)
class Records(hub.Source):
    """Where questions are streamed from: of each row several columns, kept as JSON."""

    NAME: ClassVar[str] = "data set"
    HOW: ClassVar[str] = "lab probe; or give its files with --file"

    also: tuple[str, ...] = ()
    """Further columns."""
    where_any: tuple[str, ...] = ()
    """Columns that may be lacking."""

    def text(self, row: dict[str, Any]) -> str:
        """See ``Source``."""
        names = (self.field, *self.also, *(name for name in self.where_any if name in row))
        return json.dumps({name: self.column(row, name) for name in names}, ensure_ascii=False)


class Published(ABC):
    """Base of each set's ``Asked``."""

    DATASET: ClassVar[str]
    """Name on the hub."""
    SUBSETS: ClassVar[tuple[str, ...]]
    """Configurations of it, all of which are asked."""
    SPLIT: ClassVar[str]
    """The split that is asked."""
    COLUMNS: ClassVar[tuple[str, ...]]
    """What makes a question."""
    WHERE_ANY: ClassVar[tuple[str, ...]] = ()
    """Further columns, which files may lack."""

    def sources(self, files: Sequence[str]) -> list[Records]:
        """Where the questions lie: local files, or else the hub.

        Raises:
            ConfigError: there is no such file, or it is of no known format.
        """
        if files:
            return [self._source(_format(file), None, "train", (str(Path(file).resolve()),)) for file in files]
        return [self._source(self.DATASET, subset, self.SPLIT) for subset in self.SUBSETS]

    def _source(self, dataset: str, subset: str | None, split: str, files: tuple[str, ...] = ()) -> Records:
        first, *others = self.COLUMNS
        return Records(
            dataset=dataset,
            subset=subset,
            split=split,
            field=first,
            also=tuple(others),
            where_any=self.WHERE_ANY,
            begins=None,
            files=files,
        )

    @abstractmethod
    def answers(self, rows: Sequence[Row], source: Source, read: Read, rng: np.random.Generator) -> dict[str, Any]:
        """What a model's answers come to: ``lab.probe._score.facts``, and what else there is to tell.

        ``subsets`` of it, if there are any, is the same of some of the questions, by what these are called. The
        documents of ``source`` are those that the model was trained on.
        """

    def says(self, found: dict[str, Any]) -> list[str]:
        """Sentences about answers, for people."""
        del found
        return []


def names() -> list[str]:
    """All published sets, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def describe(name: str) -> str:
    """What a set asks: the first line of its module's docstring."""
    doc = importlib.import_module(f"{__name__}.{name}").__doc__ or ""
    return doc.strip().partition("\n")[0]


def load(name: str) -> Published:
    """A set by its name."""
    return cast(type[Published], importlib.import_module(f"{__name__}.{name}").Asked)()


def rows(
    sources: Sequence[Records],
    n: int | None,
    rng: np.random.Generator,
    report: Callable[[int], None] = lambda _: None,
) -> list[Row]:
    """The questions of sources, fetched into the cache if need be; ``n`` of them drawn, or all, in their order.

    Each row says in ``part`` which configuration or file it is of; ``report`` hears of sources read.

    Raises:
        LabError: they cannot be fetched.
    """
    found: list[Row] = []
    for number, source in enumerate(sources, start=1):
        hub.fetch(source, None)
        part = source.subset or Path(*source.files[:1]).stem
        found += [{"part": part} | json.loads(text) for text in hub.documents(source, None)]
        report(number)
    if n is None or n >= len(found):
        return found
    return [found[int(i)] for i in sorted(rng.choice(len(found), size=n, replace=False))]


def draw(name: str, seed: int) -> np.random.Generator:
    """The same numbers for a set and a seed, whatever else is asked."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def _format(file: str) -> str:
    """The format of a local file."""
    path = Path(file)
    if path.suffix not in FORMATS:
        raise ConfigError(f"--file '{file}' must end in one of {', '.join(FORMATS)}")
    if not path.is_file():
        raise ConfigError(f"--file '{file}' is not a file")
    return FORMATS[path.suffix]
