"""Which paragraph comes next: the document's own, or one of another document?

Items come in twos: each one's false paragraph is the other's true one. Both are cut to the tokens of the shorter
one, and to half a window; the context is the text before, as much as fits in the rest. A scorer that ignores the
context is right in exactly one of two such items, however likely, long or well written the paragraphs are.
"""

import re

import numpy as np

from lab.probe import Choice, Probe, shuffled
from lab.probe._text import context

SHORTEST = 8
"""Tokens of a paragraph at the least."""

_BREAK = re.compile(r"\n(?=\S)")
_BLANK = re.compile(r"\n[ \t\r]*\n")


class Question(Probe):
    """The next paragraph."""

    def items(self, n: int, rng: np.random.Generator) -> list[Choice]:
        """See ``Probe``: two at a time."""
        places = self._places()
        waiting = [places[int(i)] for i in rng.permutation(len(places))]
        found: list[Choice] = []
        while waiting and len(found) + 2 <= n:
            one = waiting.pop()
            partner = next((i for i in reversed(range(len(waiting))) if waiting[i][0] != one[0]), None)
            if partner is None:
                break
            found += self._two(one, waiting.pop(partner), rng)
        return found

    def _places(self) -> list[tuple[int, int, int]]:
        """Document, beginning and end of each paragraph but the first; of each line where no line is blank."""
        places = []
        for i, document in enumerate(self.source.documents):
            text = document.text
            blank = _BLANK.search(text) is not None
            starts = [
                m.start() for m in _BREAK.finditer(text) if m.start() and (not blank or _blank(text, m.start()))
            ]
            places += [(i, a, b) for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
        return places

    def _two(self, one: tuple[int, int, int], two: tuple[int, int, int], rng: np.random.Generator) -> list[Choice]:
        """The items of two places, none if a paragraph is too short."""
        documents, window = self.source.documents, self.source.window
        texts = [documents[document].text[start:stop].rstrip() for document, start, stop in (one, two)]
        a, b = self.source.encode(*texts)
        length = min(len(a), len(b), window // 2)
        if length < SHORTEST:
            return []
        before = [context(self.source, place[0], place[1], window - length) for place in (one, two)]
        a, b = a[:length], b[:length]
        return [shuffled(before[0], [a, b], rng), shuffled(before[1], [b, a], rng)]


def _blank(text: str, at: int) -> bool:
    """Whether the line that ends at ``at`` holds nothing."""
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()
