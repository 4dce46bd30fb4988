"""What our runs say of a published claim: the rules, of which the first that fits is the verdict, and its words."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lab.stats.digits import two
from lab.study.claims import Claim, Compare

REPLICATED = "replicated"
OPPOSITE = "not replicated: opposite sign"
INCONCLUSIVE = "inconclusive at this scale"

IN_PART = "replicated in part"
"""The kind of a claim of which some pairs replicated, and none has the opposite sign."""

KINDS = {
    "incomplete": "incomplete",
    "not measured": "not measured",
    "baseline unstable": "baseline unstable",
    "diverged": "diverged here",
    "too few": "too few seeds",
    INCONCLUSIVE: INCONCLUSIVE,
    "not replicated: no effect": "no effect here",
    "not replicated: a difference": "a difference here",
    "not replicated at": "not at that size",
    OPPOSITE: "opposite sign",
    REPLICATED: REPLICATED,
}
"""How a verdict begins, and its kind in a word or two, the weakest first."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What our runs came to for one pair; all differences are of the same two arms in the same order."""

    complete: bool
    """Whether every run that counts has a result."""
    baseline_diverged: int
    diverged: int
    """Runs that diverged beyond those of the baseline."""
    p: float | None
    """Two-sided, corrected by Holm; None where there was nothing to test, or fewer than three seeds."""
    mean: float | None
    interval: tuple[float, float] | None
    """That of the whole family."""
    equivalent: float | None
    """The margin within which the two were shown to be equal; None where they were not."""
    mde: float | None
    """The smallest effect that these runs can see."""
    needed: int | None = None
    """About how many seeds would see the published difference; None where that is not known."""
    alpha: float = 0.05
    measured: bool = True
    """Whether every run that ended has the number."""


def judge(claim: Claim, measured: Measured, *, side: int, published: float | None) -> str:
    """The verdict of a claim for one pair: the first rule that fits.

    That two are equal within a margin speaks against a claim only where the published difference is no smaller.

    Args:
        claim: what was said.
        measured: what our runs came to.
        side: -1 where the difference was said to be below zero, 1 above, 0 where there was said to be none.
        published: the published difference, of the same order; None where it is in no unit of ours.
    """
    if not measured.complete:
        return "incomplete"
    if not measured.measured:
        return "not measured"
    if measured.baseline_diverged:
        return "baseline unstable, lower the LR"
    if measured.diverged:
        return "diverged here"
    if measured.p is None or measured.mean is None or measured.interval is None:
        return "too few seeds"
    return _of_none(measured) if side == 0 else _of_one(claim, measured, side, published)


def _of_none(measured: Measured) -> str:
    """Of two that were said to be level."""
    if measured.equivalent is not None:
        return f"{REPLICATED} (level within ±{two(measured.equivalent)})"
    assert measured.p is not None
    return "not replicated: a difference here" if measured.p < measured.alpha else _unseen(measured)


def _of_one(claim: Claim, measured: Measured, side: int, published: float | None) -> str:
    """Of two of which one was said to be better."""
    assert measured.p is not None
    assert measured.mean is not None
    assert measured.interval is not None
    low, high = measured.interval
    by_size = claim.compare is Compare.size and published is not None
    if measured.p < measured.alpha:
        if measured.mean * side < 0:
            return OPPOSITE
        half = 2 * _standard_error(claim) if by_size else 0.0
        if by_size and published is not None and published - half <= high and published + half >= low:
            return f"{REPLICATED} (size)"
        return f"{REPLICATED} (sign)"
    if measured.equivalent is not None and (published is None or measured.equivalent <= abs(published)):
        return f"not replicated: no effect >= {two(measured.equivalent)} here"
    if by_size and published is not None and not low <= published <= high:
        return "not replicated at that size"
    return _unseen(measured)


def _unseen(measured: Measured) -> str:
    pieces = [] if measured.mde is None else [f"MDE {two(measured.mde)}"]
    pieces += [] if measured.needed is None else [f"about {measured.needed} seeds for the published effect"]
    return INCONCLUSIVE + (f" ({', '.join(pieces)})" if pieces else "")


def _standard_error(claim: Claim) -> float:
    """Of a published difference of two means."""
    assert claim.sd is not None
    assert claim.n is not None
    return float(claim.sd * (2 / claim.n) ** 0.5)


def kind(verdict: str) -> str:
    """A verdict in a word or two, to be counted by; empty where there is none."""
    return next((word for beginning, word in KINDS.items() if verdict.startswith(beginning)), "")


def summary(verdicts: Sequence[str], *, of: int) -> str:
    """The verdict of a claim over its pairs: it holds only where each does.

    Args:
        verdicts: of the pairs that were tested; empty where nothing may be said.
        of: pairs that the claim has.
    """
    if not verdicts or not all(verdicts):
        return ""
    some = f" on {len(verdicts)} of {of} pairs" if len(verdicts) < of else ""
    if len(verdicts) == 1:
        return verdicts[0] + some
    counts = Counter(map(kind, verdicts))
    n = len(verdicts)
    if counts["opposite sign"]:
        return f"{OPPOSITE} ({counts['opposite sign']} of {n}){some}"
    if len(counts) == 1:
        same = verdicts[0] if len({*verdicts}) == 1 else _in_common(verdicts)
        return f"{same}{some or f' ({n} pairs)'}"
    said = [f"{word} {counts[word]}" for word in reversed(KINDS.values()) if counts[word] and word != REPLICATED]
    return ", ".join([f"{REPLICATED} {counts[REPLICATED]} of {n}", *said]) + some


def kind_of(verdicts: Sequence[str]) -> str:
    """The kind of a claim's verdict over its pairs; of several kinds the weakest, if none replicated."""
    if not verdicts or not all(verdicts):
        return ""
    kinds = {*map(kind, verdicts)}
    if "opposite sign" in kinds:
        return "opposite sign"
    if REPLICATED in kinds and len(kinds) > 1:
        return IN_PART
    return next(word for word in KINDS.values() if word in kinds)


def _in_common(verdicts: Sequence[str]) -> str:
    """The words of verdicts of one kind that differ in a number alone, or in whether the size agrees."""
    if all(verdict.startswith(REPLICATED) for verdict in verdicts):
        return (
            f"{REPLICATED} (sign)" if any("(sign)" in verdict for verdict in verdicts) else f"{REPLICATED} (level)"
        )
    return next(start for start in KINDS if verdicts[0].startswith(start))
