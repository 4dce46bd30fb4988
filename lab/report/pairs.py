"""One side of a comparison: the runs of a variant by seed, and whether two sides are pairs."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.report.metric import value_of
from lab.report.rows import one_a_seed, within
from lab.report.variants import Record, Variant, replicate

Seed = tuple[int, int]
"""``seed`` and ``study_seed``: runs that agree in both may be a pair."""


@dataclass(frozen=True)
class Side:
    """The runs of one variant by seed."""

    label: str
    runs: dict[Seed, Record]
    losses: dict[Seed, float | None]
    """Infinite where a run diverged, None where it has no result."""

    @property
    def diverged(self) -> int:
        """Seeds that diverged."""
        return sum(loss == math.inf for loss in self.losses.values())

    @property
    def done(self) -> int:
        """Seeds that finished."""
        return sum(loss is not None and loss < math.inf for loss in self.losses.values())

    def named(self) -> dict[str, float | None]:
        """The losses by seed as text, with ``study_seed`` where a seed occurs twice."""
        twice = max(Counter(seed for seed, _ in self.losses).values(), default=0) > 1
        return {f"{seed}/{study}" if twice else str(seed): loss for (seed, study), loss in self.losses.items()}


def are_paired(runs: Mapping[Seed, Record], baseline: Mapping[Seed, Record]) -> bool:
    """Whether runs of equal seeds share batches and weights, as far as their hashes tell."""
    both = runs.keys() & baseline.keys()
    return bool(both) and all(_share(runs[seed], baseline[seed]) for seed in both)


def _share(run: Record, other: Record) -> bool:
    ours, theirs = (record.get("hashes") or {} for record in (run, other))
    batches = {ours.get("batches"), theirs.get("batches")} - {None}
    if len(batches) > 1:
        return False
    if ours.get("tensors") == theirs.get("tensors"):  # equal shapes, equal draws
        return True
    mine, others = drawn(ours.get("tensors")), drawn(theirs.get("tensors"))
    common = mine.keys() & others.keys()
    return not common or any(mine[name] == others[name] for name in common)


def drawn(tensors: Any) -> dict[str, str]:
    """Hashes of random tensors: what occurs under several names is a constant, such as gains of one."""
    if not isinstance(tensors, Mapping):
        return {}
    counts = Counter(tensors.values())
    return {name: value for name, value in tensors.items() if counts[value] == 1}


def side_of(variant: Variant, metric: str) -> Side:
    """The runs of a variant by seed, one a seed."""
    runs = {replicate(record): record for record in one_a_seed(variant.records)}
    return Side(variant.label, runs, {seed: value_of(record, metric) for seed, record in runs.items()})


def more_of(side: Side, base: Side, *keys: str) -> float | None:
    """What a side has more of, as a share of the other's: a number of its results, by nested keys."""
    mine, theirs = (
        next((v for record in runs.values() if (v := within(record, *keys)) is not None), None)
        for runs in (side.runs, base.runs)
    )
    return mine / theirs - 1 if mine is not None and theirs else None


def unended(sides: Iterable[Side]) -> Iterator[str]:
    """The runs that neither finished nor diverged, a few words each."""
    for side in sides:
        for (seed, _), record in side.runs.items():
            if record.get("status") not in ("done", "diverged"):
                yield f"{side.label} seed {seed} {record.get('status')}"
