"""Two one-sided tests: whether a difference is within a margin (Schuirmann 1987, J. Pharmacokinet. Biopharm. 15).

"Not significant" is no evidence of no difference; this is: both ``mean <= -margin`` and ``mean >= +margin`` are
rejected, each at alpha, by the standard error and the degrees of freedom of the contrast itself. The same as its
1 - 2 alpha interval lying inside the margin. Not corrected for the number of contrasts.
"""

import math
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

from lab.stats.contrast import ALPHA, Contrast

MARGIN_SDS = 1.5
"""The margin where a study declares none, in standard deviations of the noise floor."""


@dataclass(frozen=True, kw_only=True)
class Equivalence:
    """Whether a contrast is within a margin."""

    margin: float
    """In nats, declared before the runs."""

    p: float
    """The larger of the two one-sided p."""

    interval: tuple[float, float]
    """Of the mean difference, at 1 - 2 alpha."""

    equivalent: bool
    """Whether p is below alpha."""


def equivalence(contrast: Contrast, *, margin: float, alpha: float = ALPHA) -> Equivalence:
    """Test a contrast for a difference of less than ``margin``, in nats and above 0, either way."""
    assert margin > 0, "nothing is within a margin of 0"
    inside = margin - abs(contrast.mean)  # the nearer bound has the larger p
    t = inside / contrast.se if contrast.se > 0 else math.inf if inside > 0 else -math.inf
    p = float(stdtr(contrast.df, -t))
    half = -contrast.se * float(stdtrit(contrast.df, alpha))
    interval = (contrast.mean - half, contrast.mean + half)
    return Equivalence(margin=margin, p=p, interval=interval, equivalent=p < alpha)
