"""TinyStories, short tales in the words of small children: ``roneneldan/TinyStories`` of the hub, arXiv:2305.07759.

``tokens`` are the first so many; the whole train split is about ten times the default.
"""

from dataclasses import dataclass

from lab.data.corpus import CorpusFacts
from lab.data.corpus._streamed import StreamedConfig

FACTS = CorpusFacts(
    size="up to data.tokens",
    documents="one a story",
    licence="CDLA-Sharing-1.0",
    source="Hugging Face hub: roneneldan/TinyStories",
)


@dataclass(frozen=True, kw_only=True)
class Config(StreamedConfig):
    """Stories that a language model wrote."""
