"""Places in held-out documents, and the context before them."""

import re
from collections.abc import Iterator

import numpy as np

from lab.probe import Source

MARKS = ".?!"
"""What ends a sentence."""

LONGEST_TOKEN = 16
"""Characters of text kept for each token of context; longer tokens only make a context shorter."""

_END = re.compile(rf"[{MARKS}]|\n\s*\n")


def in_random_order(places: list[tuple[int, int]], rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Places, each the index of a document and a position in it, without repetition."""
    return (places[int(i)] for i in rng.permutation(len(places)))


def context(source: Source, document: int, end: int, room: int) -> tuple[int, ...]:
    """The ids of the last ``room`` tokens of a document before position ``end``, where a space should follow.

    A document that begins within the room begins with end-of-text, as in training.
    """
    text = source.documents[document].text
    start = max(0, end - LONGEST_TOKEN * room)
    (ids,) = source.encode(text[start:end])
    return (ids if start else (source.tokenizer.eot, *ids))[-room:]


def sentence_end(text: str, start: int) -> int:
    """The position after the end mark of the sentence that ``start`` lies in; 0 where it has none."""
    mark = _END.search(text, start)
    return mark.end() if mark is not None and mark[0] in MARKS else 0
