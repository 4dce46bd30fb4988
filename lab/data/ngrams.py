"""Runs of one n-gram repeated over and over, planted into training windows, or left out of the loss.

arXiv:2501.00656, section 3.1: runs of 32 or more repeats of the same n-gram, of 1 to 13 tokens, come with spikes of
the gradient norm. The released trainer of that paper leaves a window in which it finds such a run out of the loss,
and as a whole; so does ``mask`` here.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lab.errors import ConfigError

REPEATS = 32
"""Repeats of an n-gram from which a run of it counts."""

LONGEST = 13
"""Tokens of the longest n-gram that is planted or looked for."""

BLOCK = 4
"""Random words that Philox makes at once."""

WORDS = 5 * BLOCK
"""Random words of a window: whether, how long, how often, where, and the tokens."""

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Ngrams:
    """What is done to the windows of a run's batches."""

    rate: float
    """Share of windows that a run is planted into, 0 to 1."""
    mask: bool
    """Whether the targets of windows that hold such a run are left out of the loss."""
    vocab_size: int
    """Token ids from which planted n-grams are drawn."""

    def check(self, seq_len: int) -> None:
        """Refuse windows that no run fits in.

        Raises:
            ConfigError: the windows are too short.
        """
        if self.rate > 0 and seq_len < REPEATS:
            raise ConfigError(f"data.ngram_rate {self.rate:g} needs model.max_seq_len >= {REPEATS}, not {seq_len}")

    @property
    def text(self) -> str:
        """What goes into a hash of batches; empty where they are as the corpus has them."""
        planted = f"ngrams {self.rate!r} of {self.vocab_size}\n" if self.rate > 0 else ""
        return planted + ("ngrams masked\n" if self.mask else "")

    def plant(self, window_BS: Ids, *, seed: int, first: int) -> None:
        """Write runs into some of a batch's windows.

        A window's number in the run and the seed decide alone, so it does not matter where a batch begins; a larger
        rate plants what a smaller one does, and more. A run has an n drawn from 1 to 13 as far as 32 repeats fit,
        tokens drawn from the vocabulary, and a number of repeats and a place drawn from those that fit.

        Args:
            window_BS: inputs and the last target, changed in place.
            seed: of the run's batches.
            first: number of the first of these windows, counted from the beginning of the run.
        """
        if self.rate <= 0:
            return
        size = window_BS.shape[1]
        key = int.from_bytes(hashlib.sha256(f"ngrams {seed}".encode()).digest()[:16], "little")
        source = np.random.Philox(key=key, counter=first * (WORDS // BLOCK))
        words_BW = source.random_raw(len(window_BS) * WORDS).reshape(len(window_BS), WORDS)
        for row in np.flatnonzero(words_BW[:, 0] / 2.0**64 < self.rate):
            drawn = [int(word) for word in words_BW[row]]
            n = 1 + drawn[1] % min(LONGEST, size // REPEATS)
            repeats = REPEATS + drawn[2] % (size // n - REPEATS + 1)
            start = drawn[3] % (size - n * repeats + 1)
            gram = [word % self.vocab_size for word in drawn[4 : 4 + n]]
            window_BS[row, start : start + n * repeats] = np.tile(gram, repeats)


def repeated(window_BS: Ids) -> npt.NDArray[np.bool_]:
    """Which windows hold a run of 32 or more repeats of the same 1 to 13 tokens."""
    found_B = np.zeros(len(window_BS), dtype=np.bool_)
    for n in range(1, min(LONGEST, window_BS.shape[1] // REPEATS) + 1):
        alike = (window_BS[:, n:] == window_BS[:, :-n]).cumsum(axis=1)
        alike = np.pad(alike, ((0, 0), (1, 0)))
        least = (REPEATS - 1) * n
        found_B |= (alike[:, least:] - alike[:, :-least] == least).any(axis=1)
    return found_B
