"""What is said of a variant in words, of which there are few, and none that ranks."""

from dataclasses import dataclass

from lab.stats.contrast import ALPHA, SEEDS_LEAST, Contrast
from lab.stats.digits import two
from lab.stats.equivalence import Equivalence

UNSTABLE = "baseline unstable"
"""Of a variant whose baseline diverged: nothing is better than a mean over survivors."""

SIZE_DIFFERENCE = 0.02
"""Difference in parameters or FLOPs, as a share, that a verdict carries."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a verdict rests on."""

    contrast: Contrast | None
    """Against the baseline; None where fewer than two seeds finished."""
    p: float | None
    """Corrected for the family."""
    equivalence: Equivalence | None
    """None where no margin is known."""
    mde: float | None
    """Smallest difference that would have been seen, in the unit of the contrast."""
    diverged: int
    """Seeds that diverged."""
    ended: int
    """Seeds that finished or diverged."""
    baseline_diverged: int
    """Seeds of the baseline that diverged."""
    sizes: tuple[tuple[str, float | None], ...] = ()
    """What the variant may have more or less of, as shares of the baseline's: ``("params", 0.05)``."""


def verdict(evidence: Evidence, *, alpha: float = ALPHA) -> str:
    """The words; empty where fewer than ``SEEDS_LEAST`` seeds finished on a side."""
    word = _word(evidence, alpha)
    carried = [
        f"{name} {100 * share:+.1f}%"
        for name, share in evidence.sizes
        if share is not None and abs(share) > SIZE_DIFFERENCE
    ]
    return ", ".join([word, *carried]) if word else ""


def verdict_of_sum(evidence: Evidence, *, is_interaction: bool, alpha: float = ALPHA) -> str:
    """The words for several rows less several others, of which no side is better; empty with too few seeds.

    Args:
        evidence: its ``diverged`` and ``ended`` are of all rows together.
        is_interaction: whether it is what two changes do together beyond what each does alone. Then equal to zero
            means that they add up.
        alpha: error rate.
    """
    found = evidence.contrast
    if evidence.diverged:
        return f"diverged {evidence.diverged}/{evidence.ended}"
    if found is None or min(found.n, found.n_baseline) < SEEDS_LEAST:
        return ""
    if evidence.p is not None and evidence.p < alpha and found.mean:
        return "differs from additive" if is_interaction else "differs from zero"
    if evidence.equivalence is not None and evidence.equivalence.equivalent:
        return f"{'additive' if is_interaction else 'equivalent'} within ±{two(evidence.equivalence.margin)}"
    return _unseen(evidence)


def _word(evidence: Evidence, alpha: float) -> str:
    if evidence.diverged > evidence.baseline_diverged:
        return f"diverged {evidence.diverged}/{evidence.ended}"
    if evidence.baseline_diverged:
        return UNSTABLE
    found = evidence.contrast
    if found is None or min(found.n, found.n_baseline) < SEEDS_LEAST:
        return ""
    if evidence.p is not None and evidence.p < alpha and found.mean:
        return "better" if found.mean < 0 else "worse"
    if evidence.equivalence is not None and evidence.equivalence.equivalent:
        return f"equivalent within ±{two(evidence.equivalence.margin)}"
    return _unseen(evidence)


def _unseen(evidence: Evidence) -> str:
    mde = "" if evidence.mde is None else f" (MDE {two(evidence.mde)})"
    return f"not distinguishable{mde}"
