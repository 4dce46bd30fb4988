"""Contrasts of a study that are no variant less the baseline: interactions, one variant less another, any sum.

An interaction ``A+B - A - B + baseline`` is what two changes do together beyond what each does alone. All contrasts
are tested on paired seeds by the moderated t of the variants, whose variance they borrow: one of q arms in all is
divided by the square root of q/2 for that, which makes it as wide as a difference of two. Arms that are pairs of
each other and not of the baseline, such as two that go on from the same trained weights, may scatter in another way
and borrow nothing: theirs is the plain paired t. Where arms are no pairs it is Welch's t. Of a sum no side is
better, so its words are others than those of a variant.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from lab.report.pairs import Seed, Side, are_paired
from lab.stats.contrast import Contrast, welch_sum
from lab.stats.equivalence import Equivalence, equivalence
from lab.stats.noise import Floor
from lab.stats.power import smallest_effect
from lab.stats.verdict import Evidence, verdict, verdict_of_sum

if TYPE_CHECKING:
    from lab.report.effects import Effects, Stats

RHO_MOST = 0.95
"""The largest pairing correlation that an MDE is planned with; few seeds overestimate it."""


@dataclass(frozen=True, kw_only=True)
class Combination:
    """A contrast as it is declared."""

    name: str
    """As it is written, ``A - B``."""
    plus: tuple[str, ...]
    """Labels of the arms that are added."""
    minus: tuple[str, ...]
    """Of those that are taken away, as many."""

    @property
    def arms(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.plus, *self.minus)

    @property
    def scale(self) -> float:
        """How many times as wide as a difference of two arms it is."""
        return math.sqrt(len(self.arms) / 2)

    def is_interaction(self, baseline: str) -> bool:
        """Whether it is of the form of one: two arms and the baseline, and what both make together."""
        return len(self.plus) == len(self.minus) == 2 and baseline in self.plus


@dataclass(frozen=True, kw_only=True)
class Combined:
    """What came of one; differences are those of the losses that are added less those that are taken away."""

    combination: Combination
    is_interaction: bool
    n: int
    """Seeds that finished in all its arms; where they are no pairs, in the one with the fewest."""
    diverged: int
    """Runs of its arms that diverged."""
    ended: int
    """Runs that finished or diverged."""
    is_paired: bool
    differences: dict[str, float]
    """By seed, of those that finished in all arms; empty where they are no pairs."""
    contrast: Contrast | None
    p: float | None
    """Corrected by Holm's method, in the family of all contrasts."""
    equivalence: Equivalence | None
    mde: float | None
    is_apart: bool
    """Whether its arms are pairs of each other and not of the baseline, whose floor and correlation say nothing of
    them."""
    verdict: str
    """Empty where nothing may be said."""


@dataclass(frozen=True)
class Arms:
    """The arms of a table by label, the baseline first."""

    sides: Mapping[str, Side]
    with_baseline: Collection[str]
    """Labels of those whose seeds are pairs with the baseline's, and of the baseline."""

    def share_baseline(self, one: Combination) -> bool:
        """Whether all arms of a contrast share batches and weights with the baseline, and so with each other."""
        return all(arm in self.with_baseline for arm in one.arms)

    def are_paired(self, one: Combination) -> bool:
        """Whether the arms of a contrast share batches and weights with each other, if not with the baseline."""
        if self.share_baseline(one):
            return True
        if any(arm not in self.sides for arm in one.arms):
            return False
        first, *others = (self.sides[arm].runs for arm in one.arms)
        return all(are_paired(runs, first) for runs in others)

    def by_seed(self, one: Combination, seeds: Iterable[Seed], factor: float = 1.0) -> list[float]:
        """A contrast by seed, times a factor; not a number where an arm is missing or did not finish."""
        found = []
        for seed in seeds:
            parts = [self._loss(arm, seed) for arm in one.plus] + [-self._loss(arm, seed) for arm in one.minus]
            found.append(factor * math.fsum(parts) if all(map(math.isfinite, parts)) else math.nan)
        return found

    def _loss(self, arm: str, seed: Seed) -> float:
        loss = self.sides[arm].losses.get(seed) if arm in self.sides else None
        return math.nan if loss is None else loss

    def welch(self, one: Combination, *, m: int, alpha: float) -> Contrast | None:
        """The test where the arms are no pairs; None where one is missing or has fewer than two finished seeds."""
        if any(arm not in self.sides for arm in one.arms):
            return None
        plus, minus = ([[*self.sides[arm].losses.values()] for arm in arms] for arms in (one.plus, one.minus))
        return welch_sum(plus, minus, m=m, alpha=alpha)

    def runs(self, one: Combination) -> tuple[int, int]:
        """How many runs of the arms diverged, and how many ended."""
        known = [self.sides[arm] for arm in one.arms if arm in self.sides]
        diverged = sum(side.diverged for side in known)
        return diverged, diverged + sum(side.done for side in known)


def combined(
    one: Combination, arms: Arms, contrast: Contrast | None, p: float | None, table: "Effects"
) -> Combined:
    """What is to be said of a contrast.

    Args:
        one: the contrast.
        arms: of the table.
        contrast: its test.
        p: corrected for the family.
        table: margin, floor and correlation; nothing is said where it is not complete.
    """
    ok = arms.are_paired(one)
    diverged, ended = arms.runs(one)
    is_interaction = one.is_interaction(table.baseline)
    base = arms.sides[table.baseline]
    is_apart = ok and not arms.share_baseline(one)
    by_seed = dict(zip(base.named(), arms.by_seed(one, base.losses), strict=True)) if ok else {}
    equal = None
    if contrast is not None and table.margin is not None and not diverged:
        equal = equivalence(contrast, margin=table.margin, alpha=table.stats.alpha)
    evidence = Evidence(
        contrast=contrast,
        p=p,
        equivalence=equal,
        mde=_mde(one, contrast, table, table.rho if ok else 0.0, is_apart),
        diverged=diverged,
        ended=ended,
        baseline_diverged=0,
    )
    words = verdict if len(one.arms) == 2 else partial(verdict_of_sum, is_interaction=is_interaction)
    return Combined(
        combination=one,
        is_interaction=is_interaction,
        n=min(contrast.n, contrast.n_baseline) if contrast else 0,
        diverged=diverged,
        ended=ended,
        is_paired=ok,
        differences={seed: value for seed, value in by_seed.items() if math.isfinite(value)},
        contrast=contrast,
        p=p,
        equivalence=equal,
        mde=evidence.mde,
        is_apart=is_apart,
        verdict="" if table.missing else words(evidence, alpha=table.stats.alpha),
    )


def _mde(
    one: Combination, contrast: Contrast | None, table: "Effects", rho: float | None, is_apart: bool
) -> float | None:
    if is_apart:
        return smallest_by_itself(contrast, table.m, table.stats)
    seen = smallest(table.floor, contrast.n if contrast else 0, table.m, rho, table.stats)
    return None if seen is None else one.scale * seen


def smallest_by_itself(found: Contrast | None, m: int, stats: "Stats") -> float | None:
    """The smallest visible difference by a contrast's own scatter, where that of the baseline tells nothing."""
    if found is None:
        return None
    sd, n = found.arm_sd, min(found.n, found.n_baseline)
    return smallest_effect(sd, n=n, m=m, rho=0.0, alpha=stats.alpha, power=stats.power) if sd else 0.0


@lru_cache(maxsize=256)
def smallest(floor: Floor | None, n: int, m: int, rho: float | None, stats: "Stats") -> float | None:
    """The smallest visible difference of two arms; None where the scatter of the baseline is not known."""
    if floor is None or floor.sd == 0:
        return None
    rho = min(max(rho or 0.0, 0.0), RHO_MOST)
    return smallest_effect(floor.unbiased_sd, n=n, m=m, rho=rho, alpha=stats.alpha, power=stats.power)
