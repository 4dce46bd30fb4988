"""Which word that this passage has already used ends its sentence? After LAMBADA, arXiv:1606.06031.

The last word of a sentence, of four letters or more, where it has occurred before in the passage; the passage is
the text before it, 800 characters or what fits. The three other alternatives are words of the passage with as many
tokens as the true one, drawn as often as they occur there, since the true word is likely to be a frequent one too;
each stands before the sentence's own end mark. LAMBADA asks for the word out of the whole vocabulary and has people
agree that the passage is needed; this is easier: what a word before the gap demands can already beat chance. Who
knows only how frequent tokens are does not: 19.5 % of 200 in sotu, 14 to 26 %.
"""

import re
from collections import Counter

import numpy as np

from lab.probe import Choice, Probe, shuffled
from lab.probe._text import context, in_random_order

PASSAGE = 800
"""Characters of the passage at the most."""

OTHERS = 3
"""Alternatives beside the true one."""

_LAST = re.compile(r"(?<=[a-z,;]) (?=([A-Za-z]{4,})([.?!])(?:\s|$))")
_WORD = re.compile(r"(?<=[\s(\"])[A-Za-z]{4,}(?=[\s,.;:?!)\"])")


class Question(Probe):
    """The repeated last word."""

    def items(self, n: int, rng: np.random.Generator) -> list[Choice]:
        """See ``Probe``."""
        documents = self.source.documents
        places = [(i, last.start()) for i, d in enumerate(documents) for last in _LAST.finditer(d.text)]
        found: list[Choice] = []
        for document, at in in_random_order(places, rng):
            if len(found) == n:
                break
            item = self._item(document, at, rng)
            if item is not None:
                found.append(item)
        return found

    def _item(self, document: int, at: int, rng: np.random.Generator) -> Choice | None:
        """The item of the word after the space at ``at``, if it has occurred before."""
        text = self.source.documents[document].text
        last = _LAST.match(text, at)
        assert last is not None
        word, mark = last.groups()
        if word not in _WORD.findall(text, max(0, at - PASSAGE), at):  # before anything is encoded
            return None
        (true,) = self.source.encode(f" {word}{mark}")
        room = self.source.window - len(true)
        if room < self.source.window // 2:
            return None
        before = self._passage(document, at, room)
        counts = Counter(_WORD.findall(self.source.tokenizer.decode(before)))
        if not counts.pop(word, 0):
            return None
        others = {
            ids: counts[other]
            for other, ids in zip(counts, self.source.encode(*(f" {other}{mark}" for other in counts)), strict=True)
            if len(ids) == len(true) and other.lower() != word.lower()
        }
        if len(others) < OTHERS:
            return None
        weights = np.array(list(others.values())) / sum(others.values())
        drawn = rng.choice(len(others), size=OTHERS, replace=False, p=weights)
        return shuffled(before, [true, *(list(others)[int(i)] for i in drawn)], rng)

    def _passage(self, document: int, at: int, room: int) -> tuple[int, ...]:
        """The ids of the text before the word."""
        text = self.source.documents[document].text
        start = text.find(" ", at - PASSAGE) if at > PASSAGE else 0
        if start == 0:
            return context(self.source, document, at, room)
        (ids,) = self.source.encode(text[start:at])
        return ids[-room:]
