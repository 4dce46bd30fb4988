"""Holm's step-down correction for several contrasts (Holm 1979, Scandinavian Journal of Statistics 6, 65-70).

The chance of one false star or more in a whole table stays at or below alpha, however the contrasts hang together,
and no p is larger than Bonferroni's. With the p sorted upward, ``adjusted_(i) = max over j <= i of
min(1, (m - j + 1) p_(j))``.
"""

from collections.abc import Sequence


def holm(p: Sequence[float | None], *, m: int) -> tuple[float | None, ...]:
    """Adjusted p, in the order given, to compare with alpha.

    Args:
        p: two-sided; None for a contrast that could not be tested, such as a variant that diverged. It stays in the
            family as if its p were 1, and has no adjusted p.
        m: contrasts that the study declares, at least as many as are given: losing one does not make the others
            significant.
    """
    assert m >= len(p), f"{len(p)} p of {m} declared contrasts"
    known = sorted((value, place) for place, value in enumerate(p) if value is not None)
    assert all(0 <= value <= 1 for value, _ in known), "a p lies between 0 and 1"
    adjusted: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, place) in enumerate(known):
        largest = max(largest, min(1.0, (m - rank) * value))
        adjusted[place] = largest
    return tuple(adjusted)
