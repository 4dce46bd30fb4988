"""Which learning rate an arm is reported at, from runs on seeds that are not reported.

The best mean over the tuning seeds counts; a run that diverged counts as +inf, and of equals the lowest rate. The
reported seeds are fresh: the loss at the best of several rates, on the seeds that chose it, is too good.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Pick:
    """The learning rate of an arm."""

    arm: str
    """Its name."""
    lr: float | None
    """The rate that was picked; None where a tuning run failed, so that nothing can be."""
    edge: bool
    """Whether it is the lowest or highest that was tried: a better one may lie beyond."""
    means: tuple[tuple[float, float | None], ...]
    """Each rate that was tried with its mean; None where a run failed."""


def pick(arm: str, losses: Mapping[float, Sequence[float | None]]) -> Pick:
    """Choose among learning rates.

    Args:
        arm: its name.
        losses: of each rate, over the same tuning seeds; +inf where a run diverged, None where one failed.
    """
    means = tuple((rate, _mean(losses[rate])) for rate in sorted(losses))
    if any(mean is None for _, mean in means):
        return Pick(arm, None, False, means)
    best = min(range(len(means)), key=lambda index: means[index][1])  # type: ignore[arg-type, return-value]
    return Pick(arm, means[best][0], best in (0, len(means) - 1), means)


def beyond(picked: Pick) -> list[float]:
    """The rate to try next where the best is at the edge: as far out as the edge is from its neighbour."""
    if picked.lr is None or not picked.edge:
        return []
    rates = [rate for rate, _ in picked.means]
    nearest = rates[1] if picked.lr == rates[0] else rates[-2]
    return [float(f"{picked.lr * picked.lr / nearest:.6g}")]


def _mean(losses: Sequence[float | None]) -> float | None:
    known = [loss for loss in losses if loss is not None]
    return math.fsum(known) / len(known) if len(known) == len(losses) else None
