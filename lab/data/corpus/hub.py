"""Any data set of the Hugging Face hub that has a column of text, or local Parquet and JSON Lines files.

``data=hub data.dataset=NAME data.subset=NAME data.tokens=N``; or ``data.dataset=parquet data.file=[a.parquet]``,
``data.dataset=json`` for JSON Lines. Only data sets without a script of their own can be read.
"""

from dataclasses import dataclass

from lab.component import check
from lab.data.corpus import CorpusFacts
from lab.data.corpus._streamed import StreamedConfig
from lab.data.hub import LOCAL, Source

FACTS = CorpusFacts(
    size="yours",
    documents="one a row",
    licence="the data set's",
    source="Hugging Face hub: data.dataset=NAME data.subset=NAME data.field=COLUMN",
)


@dataclass(frozen=True, kw_only=True)
class Config(StreamedConfig):
    """A data set by its name."""

    file: list[str]
    """Local files, where ``dataset`` is their format: parquet, json, csv or text."""

    def source(self) -> Source:
        """Where documents come from.

        Raises:
            ConfigError: there is no name, or files without a format or the other way round.
        """
        check(bool(self.dataset), "dataset", self.dataset, "is not set: give a name of the hub, as in OWNER/NAME")
        local = self.dataset in LOCAL
        allowed = f"needs data.dataset to be their format, one of {', '.join(LOCAL)}"
        check(local or not self.file, "file", ", ".join(self.file), allowed)
        check(bool(self.file) or not local, "file", "", f"is not set: the files of format {self.dataset}")
        return self.source_of(self.file)
