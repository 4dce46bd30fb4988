"""True sentence, or two adjacent words of it swapped?

The pair differs in the order of two words that stand side by side with one space before each and no punctuation
between; neither opens the sentence. Both orders are the same tokens up to the sentence's end, in a byte-level
vocabulary, so length decides nothing and no word alone does. Given is the text before the pair, as much as fits;
scored is the pair and the rest of its sentence. Some swaps are good English still: the best accuracy is below 100
%.
"""

import re

import numpy as np

from lab.probe import Choice, Probe, shuffled
from lab.probe._text import context, in_random_order, sentence_end

_PAIR = re.compile(r"(?<=[a-z,;]) (?=([A-Za-z]+) ([A-Za-z]+)(?=[ ,;.?!]))")


class Question(Probe):
    """Minimal pairs by swapping."""

    def items(self, n: int, rng: np.random.Generator) -> list[Choice]:
        """See ``Probe``."""
        found: list[Choice] = []
        for place in in_random_order(self._places(), rng):
            if len(found) == n:
                break
            document, at = place
            text = self.source.documents[document].text
            pair = _PAIR.match(text, at)
            assert pair is not None
            first, second = pair.groups()
            stop = sentence_end(text, at)
            after = text[at + len(f" {first} {second}") : stop]
            true, swapped = self.source.encode(f" {first} {second}{after}", f" {second} {first}{after}")
            room = self.source.window - max(len(true), len(swapped))
            if stop and room >= self.source.window // 2:
                before = context(self.source, document, at, room)
                found.append(shuffled(before, [true, swapped], rng))
        return found

    def _places(self) -> list[tuple[int, int]]:
        return [
            (i, pair.start())
            for i, document in enumerate(self.source.documents)
            for pair in _PAIR.finditer(document.text)
            if pair[1].lower() != pair[2].lower()
        ]
