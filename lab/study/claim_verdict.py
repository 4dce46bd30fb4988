"""What our runs say of a published claim: the rules, of which the first that fits is the verdict."""

from dataclasses import dataclass

from lab.study.claims import Claim, Compare


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What our runs came to for one pair; differences are variant minus baseline."""

    complete: bool
    """Whether every run of both has a result."""
    baseline_diverged: int
    diverged: int
    """Runs of the variant that diverged."""
    p: float | None
    """Two-sided, corrected by Holm; None where there was nothing to test, or fewer than three seeds."""
    mean: float | None
    interval: tuple[float, float] | None
    """That of the whole family."""
    equivalent: float | None
    """The margin within which the two were shown to be equal; None where they were not."""
    mde: float | None
    """The smallest effect that these runs can see."""
    alpha: float = 0.05


def judge(claim: Claim, measured: Measured, *, side: int, published: float | None) -> str:
    """The verdict of a claim for one pair: the first rule that fits.

    That two are equal within a margin speaks against a claim only where the published difference is no smaller.

    Args:
        claim: what was said.
        measured: what our runs came to.
        side: -1 where the variant was said to be the better one, 1 where the worse.
        published: the published difference, variant minus baseline.
    """
    if not measured.complete:
        return "incomplete"
    if measured.baseline_diverged:
        return "baseline unstable, lower the LR"
    if measured.diverged:
        return "diverged here"
    if measured.p is None or measured.mean is None or measured.interval is None:
        return "too few seeds"
    low, high = measured.interval
    if measured.p < measured.alpha:
        if measured.mean * side < 0:
            return "not replicated: opposite sign"
        if claim.compare is Compare.size and published is not None:
            half = 2 * _standard_error(claim)
            if published - half <= high and published + half >= low:
                return "replicated (size)"
        return "replicated (sign)"
    if measured.equivalent is not None and published is not None and measured.equivalent <= abs(published):
        return f"not replicated: no effect >= {measured.equivalent:.2g} here"
    if claim.compare is Compare.size and published is not None and not low <= published <= high:
        return "not replicated at that size"
    return f"inconclusive at this scale{'' if measured.mde is None else f' (MDE {measured.mde:.2g})'}"


def _standard_error(claim: Claim) -> float:
    """Of a published difference of two means."""
    assert claim.sd is not None
    assert claim.n is not None
    return float(claim.sd * (2 / claim.n) ** 0.5)
