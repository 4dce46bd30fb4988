"""Which of was/were, is/are, has/have, this/these stands in this sentence?

The true sentence against the same with the word exchanged for its partner. Given is the text before the word, as
much as fits; scored is the word and the rest of its sentence, so what follows helps to decide. Of each pair either
word is the true one equally often: who always takes the frequent word, or the shorter one, is right half of the
time.
"""

import re
from collections.abc import Iterator

import numpy as np

from lab.probe import Choice, Probe, shuffled
from lab.probe._text import context, in_random_order, sentence_end

PAIRS = (("was", "were"), ("is", "are"), ("has", "have"), ("this", "these"))

_PARTNER = {**dict(PAIRS), **{b: a for a, b in PAIRS}}
_WORD = re.compile(rf"(?<=\S) (?=({'|'.join(_PARTNER)})[ ,;])")


class Question(Probe):
    """Minimal pairs by exchange of one word."""

    def items(self, n: int, rng: np.random.Generator) -> list[Choice]:
        """See ``Probe``: pairs take turns, until ``n`` are found or no pair has both of its words left."""
        places: dict[str, list[tuple[int, int]]] = {word: [] for word in _PARTNER}
        for i, document in enumerate(self.source.documents):
            for word in _WORD.finditer(document.text):
                places[word[1]].append((i, word.start()))
        left = {word: in_random_order(found, rng) for word, found in places.items()}
        found: list[Choice] = []
        pairs = list(PAIRS)
        while pairs and len(found) < n:
            for pair in list(pairs):
                both = [self._next(left[word], word, rng) for word in pair]
                items = [item for item in both if item is not None]
                if len(items) == 2:
                    found += items
                else:
                    pairs.remove(pair)
        return found[: n - n % 2]

    def _next(self, places: Iterator[tuple[int, int]], word: str, rng: np.random.Generator) -> Choice | None:
        """An item of the next place that fits."""
        for document, at in places:
            text = self.source.documents[document].text
            stop = sentence_end(text, at)
            after = text[at + 1 + len(word) : stop]
            true, other = self.source.encode(f" {word}{after}", f" {_PARTNER[word]}{after}")
            room = self.source.window - max(len(true), len(other))
            if stop and room >= self.source.window // 2:
                return shuffled(context(self.source, document, at, room), [true, other], rng)
        return None
