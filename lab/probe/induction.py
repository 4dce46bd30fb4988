"""Which token followed this one before? A random sequence, repeated: arXiv:2209.11895, section on induction heads.

End-of-text, then up to 64 different random ids, then the same again, cut off at a random place of the repetition
after its first token. The next id is asked for, among all ids of the sequence: chance is 1 in 64, in a window of
129 or more. The ids are drawn from the whole vocabulary, so pairs were seldom seen in training and only copying
helps.
"""

import numpy as np

from lab.probe import Choice, Probe, shuffled

LONGEST = 64
"""Tokens of the sequence at the most."""

SHORTEST = 2


class Question(Probe):
    """Copying from a repeated sequence."""

    def items(self, n: int, rng: np.random.Generator) -> list[Choice]:
        """See ``Probe``."""
        eot, vocab_size = self.source.tokenizer.eot, self.source.tokenizer.vocab_size
        ids = np.delete(np.arange(vocab_size), eot)
        length = min(LONGEST, (self.source.window - 1) // 2, len(ids))
        if length < SHORTEST:
            return []
        found = []
        for _ in range(n):
            once = [int(i) for i in rng.choice(ids, size=length, replace=False)]
            asked = int(rng.integers(1, length))
            context = [eot, *once, *once[:asked]]
            alternatives = [once[asked], *once[:asked], *once[asked + 1 :]]
            found.append(shuffled(context, [[i] for i in alternatives], rng))
        return found
