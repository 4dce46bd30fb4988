"""Which value belongs to this key? Multi-query associative recall (MQAR): arXiv:2312.04927, section 3.

End-of-text, then up to 8 pairs of a random key and a random value, all different ids, then as many queries: a key
drawn from the eight, each time anew, and its value. The value of the last query is asked for, among the values:
chance is 1 in 8, in a window of 33 or more. The paper spreads its queries over a long sequence and asks for all of
them; here they follow at once, and one answer a sequence is counted, so that the answers are independent. Keys come
again, so no value is ruled out by having been an answer.
"""

import numpy as np

from lab.probe import Choice, Probe, shuffled

MOST = 8
"""Pairs at the most."""

FEWEST = 2


class Question(Probe):
    """Recall of a value by its key."""

    def items(self, n: int, rng: np.random.Generator) -> list[Choice]:
        """See ``Probe``."""
        eot, vocab_size = self.source.tokenizer.eot, self.source.tokenizer.vocab_size
        ids = np.delete(np.arange(vocab_size), eot)
        pairs = min(MOST, (self.source.window - 1) // 4, len(ids) // 2)
        if pairs < FEWEST:
            return []
        found = []
        for _ in range(n):
            drawn = [int(i) for i in rng.choice(ids, size=2 * pairs, replace=False)]
            value = dict(zip(drawn[::2], drawn[1::2], strict=True))
            *queries, asked = (drawn[2 * int(i)] for i in rng.integers(pairs, size=pairs))
            answered = [i for key in queries for i in (key, value[key])]
            others = [v for key, v in value.items() if key != asked]
            found.append(shuffled([eot, *drawn, *answered, asked], [[v] for v in (value[asked], *others)], rng))
        return found
