"""What a model answers, and how sure one can be of its accuracy."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.probe import Choice

if TYPE_CHECKING:
    from torch import Tensor

LOGITS_AT_ONCE = 1 << 24
"""Elements of the logits of one batch."""

ROWS = 32
"""Sequences of one batch at the most."""

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Score:
    """How a probe ended."""

    items: int
    right: int
    chance: float | None
    """One in the number of alternatives; None where there are none."""
    right_of_all: int | None
    """Items whose answer is the likeliest id of the whole vocabulary; None where one has several tokens."""

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return self.right / self.items

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's exact 95 % interval of the accuracy, with items as independent draws."""
        from scipy.stats import binomtest

        found = binomtest(self.right, self.items).proportion_ci(CONFIDENCE, method="exact")
        return float(found.low), float(found.high)

    @property
    def verdict(self) -> str:
        """Whether the interval leaves chance out, and on which side."""
        if self.chance is None:
            return ""
        low, high = self.interval
        return "above chance" if low > self.chance else "below chance" if high < self.chance else ""


FACTS = ("items", "right", "accuracy", "interval", "chance", "verdict", "right_of_whole_vocabulary")
"""Keys of ``facts``."""


def facts(found: Score | None) -> dict[str, Any]:
    """What a score comes to, or that no question could be made."""
    if found is None:
        return dict.fromkeys(FACTS) | {"items": 0}
    values = (
        found.items,
        found.right,
        found.accuracy,
        list(found.interval),
        found.chance,
        found.verdict,
        found.right_of_all,
    )
    return dict(zip(FACTS, values, strict=True))


@dataclass(frozen=True)
class Reading:
    """What a model makes of one item."""

    totals: tuple[float, ...]
    """Summed log-probability of each alternative, in nats."""
    greedy: tuple[bool, ...]
    """Of each alternative, whether each of its tokens is the likeliest of the whole vocabulary."""

    @property
    def best(self) -> int:
        """Index of the likeliest alternative; of several the first."""
        return max(range(len(self.totals)), key=self.totals.__getitem__)


def score(
    logits: "Callable[[Tensor], Tensor]",
    items: Sequence[Choice],
    *,
    vocab_size: int,
    pad: int,
    device: str = "cpu",
    report: Callable[[int], None] = lambda done: None,
) -> Score:
    """Ask a model; at least one item, all with as many alternatives. Arguments as of ``read``."""
    (n_alternatives,) = {len(item.alternatives) for item in items}
    readings = read(logits, items, vocab_size=vocab_size, pad=pad, device=device, report=report)
    right = sum(reading.best == item.answer for reading, item in zip(readings, items, strict=True))
    of_all = sum(reading.greedy[item.answer] for reading, item in zip(readings, items, strict=True))
    single = all(len(item.alternatives[item.answer]) == 1 for item in items)
    return Score(len(items), right, 1 / n_alternatives, of_all if single else None)


def read(
    logits: "Callable[[Tensor], Tensor]",
    items: Sequence[Choice],
    *,
    vocab_size: int,
    pad: int,
    device: str = "cpu",
    report: Callable[[int], None] = lambda done: None,
) -> list[Reading]:
    """Have a model read items.

    Args:
        logits: of the token after each position, (B, T, V), from ids (B, T); causal.
        items: any number.
        vocab_size: V.
        pad: any id; it stands behind sequences that are shorter than others of their batch.
        device: where ``logits`` takes its ids.
        report: hears of sequences done.
    """
    import torch

    asked = [(i, read) for i, item in enumerate(items) for read in _sequences(item)]
    asked.sort(key=lambda pair: (len(pair[1]), pair[0]))
    found: list[dict[int, tuple[float, bool]]] = [{} for _ in items]
    done = 0
    with torch.no_grad():
        for batch in _batches(asked, vocab_size):
            longest = max(len(read) for _, read in batch)
            ids = torch.tensor([[*read, *[pad] * (longest - len(read))] for _, read in batch], device=device)
            z_BTV = logits(ids)
            for z_TV, (i, read) in zip(z_BTV, batch, strict=True):
                logp_TV = z_TV[len(items[i].context) - 1 : len(read)].float().log_softmax(dim=-1)
                found[i] |= _alternatives(logp_TV, items[i], _sequences(items[i])[read])
            done += len(batch)
            report(done)
    in_order = [[of[j] for j in range(len(item.alternatives))] for of, item in zip(found, items, strict=True)]
    return [Reading(tuple(total for total, _ in of), tuple(greedy for _, greedy in of)) for of in in_order]


def _alternatives(logp_TV: "Tensor", item: Choice, indices: Sequence[int]) -> dict[int, tuple[float, bool]]:
    """Of those alternatives of an item that are scored by one sequence, the sum, and whether all is likeliest."""
    import torch

    target_TJ = torch.tensor([item.alternatives[j] for j in indices], device=logp_TV.device).T
    total_J = logp_TV.gather(1, target_TJ).cpu().double().sum(dim=0)
    greedy_J = (logp_TV.argmax(dim=-1)[:, None] == target_TJ).all(dim=0)
    return dict(zip(indices, zip(total_J.tolist(), greedy_J.tolist(), strict=True), strict=True))


def n_sequences(items: Sequence[Choice]) -> int:
    """How many sequences ``score`` reads."""
    return sum(len(_sequences(item)) for item in items)


def _sequences(item: Choice) -> dict[tuple[int, ...], list[int]]:
    """What the model reads, and the alternatives that it scores: the last token of one is only predicted."""
    found: dict[tuple[int, ...], list[int]] = {}
    for j, alternative in enumerate(item.alternatives):
        found.setdefault((*item.context, *alternative[:-1]), []).append(j)
    return found


def _batches(
    asked: Sequence[tuple[int, tuple[int, ...]]], vocab_size: int
) -> Iterator[Sequence[tuple[int, tuple[int, ...]]]]:
    """Sequences of like length, as many as the memory for their logits allows."""
    rest = list(asked)
    while rest:
        rows = min(ROWS, len(rest))
        while rows > 1 and rows * len(rest[rows - 1][1]) * vocab_size > LOGITS_AT_ONCE:
            rows -= 1
        yield rest[:rows]
        rest = rest[rows:]
