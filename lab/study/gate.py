"""Whether a study can see what it looks for: known once the baseline has run, and the rest is not yet paid for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.stats.noise import noise_floor
from lab.stats.power import seeds_needed, smallest_effect
from lab.study.design import contrasts
from lab.study.sections import Metric
from lab.study.study import Study
from lab.study.words import Keys

UNPAIRED = 0.0
"""Correlation over seeds where variants share nothing with the baseline: the cautious one."""

PAIRED = 0.5
"""Correlation that is planned with where they share initial weights and batches."""

ASSUMED_SD = 0.012
"""Standard deviation over seeds, in nats, where nothing is known; small models on a CPU had 0.008 to 0.02."""

ALL_THE_SAME = "; accept_mde=true goes on all the same"

UNITS = {Metric.bits_per_byte: "bits per byte"}
"""Of metrics that are not in nats per token."""


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What a study can see."""

    unit: str
    """Of all figures: that of the study's primary metric."""
    sd: float
    """Standard deviation over seeds, of the baseline's population."""
    source: str
    """Where it comes from: ``measured``, ``declared`` or ``assumed``."""
    seeds: int
    """That are reported of each arm."""
    contrasts: int
    """That the study declares."""
    effect: float | None
    """The smallest difference that is seen, correlated by ``PAIRED``; None with fewer than two seeds."""
    unpaired_effect: float | None
    """The same by ``UNPAIRED``."""
    widest: float
    """How many times the effect has to be for the contrast of most arms, such as an interaction."""
    min_effect: float | None
    """What is looked for; None: nothing in particular."""
    seeds_needed: int | None
    """That would see it, by ``PAIRED``; None: more than can be counted, or nothing is looked for."""
    diverged: int = 0
    """Runs of the baseline that diverged."""

    @property
    def enough(self) -> bool:
        """Whether the study can see what it looks for."""
        if self.min_effect is None:
            return True
        return not self.diverged and self.effect is not None and self.effect <= self.min_effect

    @property
    def text(self) -> str:
        """The decision in one line."""
        if self.diverged:
            return (
                f"the baseline diverged in {self.diverged} of {self.seeds} runs, so that there is little to "
                f"compare with: a lower optim.lr may help{'' if self.enough else ALL_THE_SAME}"
            )
        if self.effect is None or self.unpaired_effect is None:
            return "the study can see nothing: one seed shows no scatter"
        facts = (
            f"sd {self.sd:.2g} {self.source}, {self.seeds} seeds, {self.contrasts} "
            f"contrast{'' if self.contrasts == 1 else 's'}; {self.unpaired_effect:.2g} if pairing gained nothing"
            + (f"; {self.widest:.2g} times that for an interaction)" if self.widest > 1 else ")")
        )
        sees = f"the smallest effect this study can see is {self.effect:.2g} {self.unit} ({facts}"
        if self.min_effect is None:
            return sees
        if self.enough:
            return f"{sees}, within study.gate.min_effect {self.min_effect:g}"
        needed = f"{self.seeds_needed} seeds" if self.seeds_needed else "more seeds than can be counted"
        return (
            f"{sees}, larger than study.gate.min_effect {self.min_effect:g}: {needed} would be needed{ALL_THE_SAME}"
        )


def look(study: Study, losses: Sequence[float | None], keys: Keys | None = None) -> Sight:
    """What a study can see, by the losses of its baseline's report seeds; +inf where one diverged.

    With fewer than two finite losses the scatter is that of ``study.gate``, or assumed.
    """
    floor = noise_floor([loss for loss in losses if loss is not None])
    diverged = sum(loss is not None and math.isinf(loss) for loss in losses)
    if floor is not None:
        return sight(study, floor.unbiased_sd, "measured", diverged=diverged, keys=keys)
    if study.gate and study.gate.sd is not None:
        return sight(study, study.gate.sd, "declared", diverged=diverged, keys=keys)
    return sight(study, ASSUMED_SD, "assumed", diverged=diverged, keys=keys)


def sight(study: Study, sd: float, source: str, *, diverged: int = 0, keys: Keys | None = None) -> Sight:
    """What a study can see where seeds scatter by ``sd``."""
    n, asked = len(study.seeds.report), contrasts(study, keys=keys)
    m, alpha, power = len(asked), study.stats.alpha, study.stats.power
    paired, unpaired = (
        smallest_effect(sd, n=n, m=m, rho=rho, alpha=alpha, power=power) if sd > 0 else 0.0
        for rho in (PAIRED, UNPAIRED)
    )
    wanted, needed = study.gate.min_effect if study.gate else None, None
    if wanted is not None and sd > 0:
        needed = seeds_needed(wanted, sd=sd, m=m, rho=PAIRED, alpha=alpha, power=power)
    return Sight(
        unit=UNITS.get(study.primary, "nats"),
        sd=sd,
        source=source,
        seeds=n,
        contrasts=m,
        effect=paired,
        unpaired_effect=unpaired,
        widest=max(math.sqrt(len(contrast.plus)) for contrast in asked),
        min_effect=wanted,
        seeds_needed=needed,
        diverged=diverged,
    )
