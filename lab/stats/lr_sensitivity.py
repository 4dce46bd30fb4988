"""How much the final loss depends on the learning rate: sensitivity, the best rate, and the usable range.

Sensitivity is that of arXiv:2309.14322 section 2.2, ``mean over the grid of min(loss, loss_0) - best``, with
equal weights on a grid that is even in log. A run that diverged counts as the loss at initialization ``loss_0``;
seeds are averaged at each rate before the best is taken. The value depends on the grid. The minimum of few seeds is
biased low, and so the sensitivity high.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.stats.contrast import Floats
from lab.stats.resample import resampled

TOLERANCE = 0.02
"""Nats above the best loss that are usable."""


@dataclass(frozen=True, kw_only=True)
class LrCurve:
    """One variant over its learning rates."""

    lrs: tuple[float, ...]
    means: tuple[float, ...]
    """Mean loss over seeds by rate; infinite where a seed diverged."""
    diverged: tuple[int, ...]
    """Seeds that diverged, by rate."""
    n: tuple[int, ...]
    """Seeds that ended, by rate."""
    best: int | None
    """Place of the best rate; None where all diverged."""
    edge: bool
    """Whether the best rate is the smallest or the largest of the grid."""
    sensitivity: float | None
    interval: tuple[float, float] | None
    """Of the sensitivity, by resampling seeds jointly over rates."""
    octaves: float | None
    """Width of the range around the best with at most ``TOLERANCE`` more loss, in factors of 2."""
    is_open: bool
    """Whether that range reaches an end of the grid, so that it may be wider."""
    first_diverging: float | None
    """The smallest rate at which a seed diverged."""


def lr_curve(lrs: list[float], losses: Floats, *, loss_0: float | None, tolerance: float = TOLERANCE) -> LrCurve:
    """Judge the losses of one variant.

    Args:
        lrs: learning rates, ascending.
        losses: final losses in nats, a row a seed and a column a rate: infinite where diverged, NaN where there is
            no run.
        loss_0: loss at initialization; None where it is not known, and then nothing that diverged is averaged.
        tolerance: nats above the best that are usable.
    """
    assert losses.shape[1] == len(lrs)
    assert all(a < b for a, b in itertools.pairwise(lrs)), "ascending"
    means = _means(losses)
    diverged = np.isposinf(losses).sum(axis=0)
    best = int(np.nanargmin(means)) if np.isfinite(means).any() else None
    capped = _capped(losses, loss_0)
    octaves, is_open = (
        (None, False) if best is None or len(lrs) < 2 else usable(lrs, _means(capped), best, tolerance)
    )
    return LrCurve(
        lrs=tuple(lrs),
        means=tuple(map(float, means)),
        diverged=tuple(map(int, diverged)),
        n=tuple(int(n) for n in (~np.isnan(losses)).sum(axis=0)),
        best=best,
        edge=len(lrs) > 1 and best in (0, len(lrs) - 1),
        sensitivity=_known(sensitivity(capped)),
        interval=_interval(capped),
        octaves=octaves,
        is_open=is_open,
        first_diverging=next((lr for lr, k in zip(lrs, diverged, strict=True) if k), None),
    )


def sensitivity(capped: Floats) -> float:
    """Mean over rates of the seeds' mean loss, less the least of them; NaN where a rate has no finite mean."""
    means = _means(capped)
    if means.size < 2 or not np.isfinite(means).all():
        return math.nan
    return float(means.mean() - means.min())


def difference(
    losses: Floats, loss_0: float | None, base: Floats, base_loss_0: float | None
) -> tuple[float | None, tuple[float, float] | None]:
    """Sensitivity less that of a baseline on the same grid and seeds, and its interval, both resampled together."""
    ours, theirs = _capped(losses, loss_0), _capped(base, base_loss_0)
    mean = _known(sensitivity(ours) - sensitivity(theirs))
    if mean is None or ours.shape != theirs.shape or np.isnan(ours).any() or np.isnan(theirs).any():
        return mean, None
    return mean, resampled(len(ours), lambda draw: sensitivity(ours[draw]) - sensitivity(theirs[draw]))


def usable(lrs: list[float], means: Floats, best: int, tolerance: float) -> tuple[float | None, bool]:
    """Octaves around the best rate within the tolerance, straight lines in log rate between the grid's points.

    The second value says whether the range reaches an end of the grid. Next to a rate whose loss is not known or
    infinite the range ends at the last rate that is.
    """
    if not math.isfinite(means[best]):
        return None, False
    log, limit = np.log2(lrs), float(means[best]) + tolerance
    ends, is_open = [], False
    for step in (-1, 1):
        at = best
        while 0 <= at + step < len(lrs) and means[at + step] <= limit:
            at += step
        end = float(log[at])
        if not 0 <= at + step < len(lrs):
            is_open = True
        elif math.isfinite(means[at + step]):
            share = (limit - float(means[at])) / float(means[at + step] - means[at])
            end += share * float(log[at + step] - log[at])
        ends.append(end)
    return ends[1] - ends[0], is_open


def _capped(losses: Floats, loss_0: float | None) -> Floats:
    return losses if loss_0 is None else np.asarray(np.minimum(losses, loss_0), dtype=np.float64)


def _means(losses: Floats) -> Floats:
    """Of each column over the seeds that have a loss; NaN where none has."""
    there = ~np.isnan(losses)
    n = there.sum(axis=0)
    total = np.where(there, losses, 0.0).sum(axis=0)
    return np.asarray(np.where(n > 0, total / np.maximum(n, 1), np.nan), dtype=np.float64)


def _interval(capped: Floats) -> tuple[float, float] | None:
    whole: NDArray[np.float64] = capped[~np.isnan(capped).any(axis=1)]
    return resampled(len(whole), lambda draw: sensitivity(whole[draw]))


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
