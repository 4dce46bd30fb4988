"""What a model answers, and how sure one can be of its accuracy."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    chance: float
    """One in the number of alternatives."""
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
        low, high = self.interval
        return "above chance" if low > self.chance else "below chance" if high < self.chance else ""


def score(
    logits: "Callable[[Tensor], Tensor]",
    items: Sequence[Choice],
    *,
    vocab_size: int,
    pad: int,
    device: str = "cpu",
    report: Callable[[int], None] = lambda done: None,
) -> Score:
    """Ask a model.

    Args:
        logits: of the token after each position, (B, T, V), from ids (B, T); causal.
        items: at least one, all with as many alternatives.
        vocab_size: V.
        pad: any id; it stands behind sequences that are shorter than others of their batch.
        device: where ``logits`` takes its ids.
        report: hears of sequences done.
    """
    import torch

    (n_alternatives,) = {len(item.alternatives) for item in items}
    asked = [(i, read) for i, item in enumerate(items) for read in _sequences(item)]
    asked.sort(key=lambda pair: (len(pair[1]), pair[0]))
    totals: list[dict[int, float]] = [{} for _ in items]
    first = [-1] * len(items)  # the likeliest id of the vocabulary after each context
    done = 0
    with torch.no_grad():
        for batch in _batches(asked, vocab_size):
            longest = max(len(read) for _, read in batch)
            ids = torch.tensor([[*read, *[pad] * (longest - len(read))] for _, read in batch], device=device)
            z_BTV = logits(ids)
            for z_TV, (i, read) in zip(z_BTV, batch, strict=True):
                logp_TV = z_TV[len(items[i].context) - 1 : len(read)].float().log_softmax(dim=-1)
                totals[i] |= _totals(logp_TV, items[i], _sequences(items[i])[read])
                first[i] = int(logp_TV[0].argmax())
            done += len(batch)
            report(done)
    best = [max(range(n_alternatives), key=total.__getitem__) for total in totals]
    right = sum(index == item.answer for index, item in zip(best, items, strict=True))
    truths = [item.alternatives[item.answer] for item in items]
    of_all = sum((id_,) == true for id_, true in zip(first, truths, strict=True))
    single = all(len(true) == 1 for true in truths)
    return Score(len(items), right, 1 / n_alternatives, of_all if single else None)


def _totals(logp_TV: "Tensor", item: Choice, indices: Sequence[int]) -> dict[int, float]:
    """The summed log-probability of those alternatives of an item that are scored by one sequence."""
    import torch

    target_TJ = torch.tensor([item.alternatives[j] for j in indices], device=logp_TV.device).T
    total_J = logp_TV.gather(1, target_TJ).cpu().double().sum(dim=0)
    return dict(zip(indices, total_J.tolist(), strict=True))


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
