"""Which word ends this passage, out of all there are? LAMBADA, arXiv:1606.06031.

5,153 passages of novels whose last word people guess from the whole passage, but not from its last sentence; in the
form that OpenAI made for GPT-2, with capitals and punctuation. The word, with the space before it, is right where
each of its tokens is the likeliest one of the whole vocabulary after those before it, which is what greedy decoding
would say. The perplexity is exp of the mean over passages of the word's negative log-probability: of words and not
of tokens, so that tokenizers can be compared. A passage that is longer than the window loses its beginning; one
that is not follows end-of-text. There are no alternatives to guess among, and so no chance level. Licence: MIT.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lab.probe import Choice, Source
from lab.probe._score import Score, facts
from lab.probe.published import Published, Read, Row


class Asked(Published):
    """Last words."""

    DATASET = "EleutherAI/lambada_openai"
    SUBSETS = ("default",)
    SPLIT = "test"
    COLUMNS = ("text",)

    def answers(self, rows: Sequence[Row], source: Source, read: Read, rng: np.random.Generator) -> dict[str, Any]:
        """See ``Published``."""
        del rng
        items, n_cut = _items(rows, source)
        readings = read(items)
        right = sum(reading.greedy[0] for reading in readings)
        nats = [-reading.totals[0] for reading in readings]
        return facts(Score(len(items), right, None, right) if items else None) | {
            "perplexity": _exp(sum(nats) / len(nats)) if nats else None,
            "nats_per_word": sum(nats) / len(nats) if nats else None,
            "cut": n_cut,
        }

    def says(self, found: dict[str, Any]) -> list[str]:
        """See ``Published``."""
        if not found["items"]:
            return []
        perplexity = "too large" if found["perplexity"] is None else f"{found['perplexity']:,.1f}"
        return [
            f"perplexity of the last word {perplexity} ({found['nats_per_word']:.3f} nats); "
            f"{found['cut']} of {found['items']} passages begin before the model's window"
        ]


def _items(rows: Sequence[Row], source: Source) -> tuple[list[Choice], int]:
    """The passages, each with its last word as the only alternative; and how many lost their beginning."""
    parts = [row["text"].rstrip().rpartition(" ") for row in rows]
    kept = [(passage, f" {word}") for passage, _, word in parts if passage.strip()]
    passages, words = (source.encode(*texts) for texts in zip(*kept, strict=True)) if kept else ([], [])
    items, n_cut = [], 0
    for passage, word in zip(passages, words, strict=True):
        whole, room = (source.tokenizer.eot, *passage), source.window - len(word)
        if room < 1:
            continue
        n_cut += len(whole) > room
        items.append(Choice(whole[-room:], (word,), 0))
    return items, n_cut


def _exp(nats: float) -> float | None:
    """The exponential; None where no number holds it."""
    try:
        return math.exp(nats)
    except OverflowError:
        return None
