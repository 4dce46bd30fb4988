"""WikiText-103, good and featured articles of Wikipedia: ``Salesforce/wikitext`` of the hub, arXiv:1609.07843.

The raw form, whose rows are lines. Here a document is an article, from its title to the next one, so that no
article has lines in train and in val; the published validation and test splits are not used.
"""

from dataclasses import dataclass

from lab.data.corpus import CorpusFacts
from lab.data.corpus._streamed import StreamedConfig

FACTS = CorpusFacts(
    size="up to data.tokens",
    documents="one an article",
    licence="CC BY-SA 3.0, GFDL",
    source="Hugging Face hub: Salesforce/wikitext, wikitext-103-raw-v1",
)


@dataclass(frozen=True, kw_only=True)
class Config(StreamedConfig):
    """Articles of Wikipedia."""
