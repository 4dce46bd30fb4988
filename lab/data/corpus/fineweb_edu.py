"""FineWeb-Edu, pages that a classifier called educational: ``HuggingFaceFW/fineweb-edu``, arXiv:2406.17557.

``sample-10BT`` is a sample of ten thousand million tokens; ``tokens`` takes the first so many of its order.
"""

from dataclasses import dataclass

from lab.data.corpus import CorpusFacts
from lab.data.corpus._streamed import StreamedConfig

FACTS = CorpusFacts(
    size="up to data.tokens",
    documents="one a page",
    licence="ODC-By 1.0",
    source="Hugging Face hub: HuggingFaceFW/fineweb-edu, sample-10BT",
)


@dataclass(frozen=True, kw_only=True)
class Config(StreamedConfig):
    """Pages of the web."""
