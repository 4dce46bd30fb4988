"""Which windows of the train stream make up each batch: a pure function of seed and step.

A pass over the data cuts the stream into windows that begin at a phase of its own and takes them in an order
of its own, each once. Both come from (seed, pass), so resuming at a step needs no state, and two variants of
one seed see the same batches.
"""

import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.data.ngrams import Ngrams, repeated
from lab.errors import ConfigError

Tokens = npt.NDArray[np.unsignedinteger[Any]]
"""A stream of token ids."""

Ids = npt.NDArray[np.int64]
"""Ids, targets or positions, ready for torch."""

IGNORED = -1
"""The target of a padded position, or of a window that is left out: not to be scored."""


class Batches:
    """The batches of a run. ``at`` may be called in any order."""

    def __init__(
        self,
        tokens: Tokens,
        *,
        tokens_hash: str,
        seq_len: int,
        batch_size: int,
        seed: int,
        ngrams: Ngrams | None = None,
    ) -> None:
        """Lay out the windows of a stream.

        Args:
            tokens: the train stream.
            tokens_hash: sha256 of the encoded corpus, ``TokenSet.hash``; it goes into ``hash``.
            seq_len: tokens of a window.
            batch_size: windows of a batch.
            seed: seed of the order.
            ngrams: what is planted into windows and left out of the loss; None: nothing.

        Raises:
            ConfigError: the stream is too short for one window at every phase, or windows for what is planted.
        """
        least = 2 * seq_len
        if len(tokens) < least:
            raise ConfigError(
                f"data holds {len(tokens)} train tokens; model.max_seq_len {seq_len} needs at least {least}"
            )
        self.tokens = tokens
        self.tokens_hash = tokens_hash
        self.seq_len = seq_len
        self.batch_size = batch_size
        self.seed = seed
        self.ngrams = ngrams
        if ngrams is not None:
            ngrams.check(seq_len)
        self.n_windows = (len(tokens) - seq_len) // seq_len
        self._passes: OrderedDict[int, Ids] = OrderedDict()

    def at(self, step: int) -> tuple[Ids, Ids]:
        """Inputs and targets of a step, each of shape (batch_size, seq_len); targets are one token ahead.

        Targets that are to be left out of the loss are ``IGNORED``.
        """
        index = self.starts(step)[:, None] + np.arange(self.seq_len + 1)
        window = self.tokens[index].astype(np.int64)
        if self.ngrams is not None:
            self.ngrams.plant(window, seed=self.seed, first=step * self.batch_size)
        targets = window[:, 1:].copy()
        if self.ngrams is not None and self.ngrams.mask:
            targets[repeated(window)] = IGNORED
        return window[:, :-1].copy(), targets

    def starts(self, step: int) -> Ids:
        """Where the windows of a step begin in the stream."""
        return self._between(step * self.batch_size, (step + 1) * self.batch_size)

    def hash(self, steps: int) -> str:
        """sha256 over what is drawn in steps 0 to ``steps - 1``: equal where the batches are."""
        digest = hashlib.sha256(f"{self.tokens_hash} {self.seq_len} {self.batch_size} {steps}\n".encode())
        if self.ngrams is not None:
            digest.update(self.ngrams.text.encode())
        block = max(1, 1_000_000 // self.batch_size)
        for step in range(0, steps, block):
            stop = min(steps, step + block)
            starts = self._between(step * self.batch_size, stop * self.batch_size)
            digest.update(starts.astype("<i8").tobytes())
        return digest.hexdigest()

    def epochs(self, steps: int) -> float:
        """Passes over the train stream in so many steps."""
        return steps * self.batch_size / self.n_windows

    def _between(self, first: int, last: int) -> Ids:
        """Starts of the windows number ``first`` to ``last - 1`` of the run, across passes."""
        parts = []
        while first < last:
            number, offset = divmod(first, self.n_windows)
            part = self._pass(number)[offset : offset + last - first]
            parts.append(part)
            first += len(part)
        return np.concatenate(parts)

    def _pass(self, number: int) -> Ids:
        """Starts of all windows of a pass in its order; the last two passes are kept.

        Sorting raw words of Philox, and not ``Generator.permutation``: numpy promises the words for all its
        versions, but not the permutation.
        """
        if number not in self._passes:
            key = hashlib.sha256(f"batches {self.seed} {number}".encode()).digest()[:16]
            words = np.random.Philox(key=int.from_bytes(key, "little")).random_raw(self.n_windows + 1)
            phase = int(words[0] % np.uint64(self.seq_len))
            order = np.argsort(words[1:], kind="stable").astype(np.int64)
            self._passes[number] = phase + order * self.seq_len
            while len(self._passes) > 2:
                self._passes.popitem(last=False)
        self._passes.move_to_end(number)
        return self._passes[number]


def eval_windows(tokens: Tokens, seq_len: int) -> tuple[Ids, Ids]:
    """Inputs and targets that score every token after the first once, in windows that do not overlap.

    Both have shape (windows, seq_len). The last window is filled up with input 0 and target ``IGNORED``.
    """
    n_targets = max(0, len(tokens) - 1)
    n_windows = -(-n_targets // seq_len)
    inputs = np.zeros(n_windows * seq_len, dtype=np.int64)
    targets = np.full(n_windows * seq_len, IGNORED, dtype=np.int64)
    inputs[:n_targets] = tokens[:n_targets]
    targets[:n_targets] = tokens[1 : n_targets + 1]
    return inputs.reshape(n_windows, seq_len), targets.reshape(n_windows, seq_len)
