"""Which of a study's published claims it can say anything about at a tier, and why not of the others."""

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lab.study.claims import Claim, Expect, Want, claim
from lab.study.gate import Sight
from lab.study.published import OF_GRID, Published, within_runs
from lab.study.study import Study

LEAST_SEEDS = 3
"""With fewer nothing is tested."""

LOSS = re.compile(r"(final|early|best)_loss|measures\.lengths\.(loss|tail)_x\d+|measures\.train_gap\.train_loss")
"""Metrics in nats per token, whose scatter over seeds is taken to be that of ``final_loss``."""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """A claim, as far as a tier of a study can judge it."""

    claim: Claim
    metric: str
    """Our number that is tested."""
    pairs: tuple[tuple[str, str], ...]
    """Arms of the tier, the better one and the worse."""
    visible: int | None
    """How many of the pairs had a published difference that would be seen; None: sizes do not compare."""
    effect: float | None
    """The largest published difference of a pair, in nats; None: not in nats."""
    why: str | None
    """Why it is out of reach; None: it is not."""

    @property
    def note(self) -> str | None:
        """What is to be expected of a claim that is in reach; None: nothing in particular."""
        if self.why is not None or self.claim.expect not in (Expect.weak, Expect.noise):
            return None
        because = f": {self.claim.why}" if self.claim.why else ""
        return f"if it is as large as published; a weaker one is expected of small models{because}"

    @property
    def arms(self) -> frozenset[str]:
        """Those whose results it is judged by."""
        return frozenset(name for pair in self.pairs for name in pair)


def reaches(
    study: Study, sight: Sight, arms: Collection[str], every: Collection[str] | None = None
) -> tuple[Reach, ...]:
    """The claims that a study names, each with whether it is in reach.

    Args:
        study: at its tier.
        sight: what it can see there.
        arms: names of those of the tier.
        every: names of those of all tiers; None: the same.
    """
    return tuple(_reach(study, one, sight, arms, arms if every is None else every) for one in study.published)


def _reach(study: Study, one: Published, sight: Sight, arms: Collection[str], every: Collection[str]) -> Reach:
    found = claim(one.claim)
    metric = one.metric or study.primary
    named = [
        ((better, worse), (one.arms.get(better, better), one.arms.get(worse, worse)))
        for better, worse in found.pairs
    ]
    if within_runs(metric):
        named = [(names, (study.baseline.name, study.baseline.name)) for names, _ in named]
    here = [(names, pair) for names, pair in named if {*pair} <= {*arms}]
    effects = _effects(found, one, [names for names, _ in here]) if LOSS.fullmatch(metric) else []
    seen = None
    if effects and sight.unit == "nats" and found.want is not Want.flat:
        seen = sum(effect >= (sight.effect or math.inf) for effect in effects)
    reach = Reach(
        claim=found,
        metric=metric,
        pairs=tuple(pair for _, pair in here),
        visible=seen,
        effect=max(effects, default=None),
        why=None,
    )
    absent = [name for _, pair in named if {*pair} <= {*every} for name in pair if name not in arms]
    why = next(_hindrances(study, one, reach, sight, dict.fromkeys(absent)), None)
    return Reach(**{**vars(reach), "why": why})


def _effects(found: Claim, one: Published, pairs: list[tuple[str, str]]) -> list[float]:
    """Published differences of pairs in nats; none where they are in another unit."""
    values = found.values(one.at)
    known = [(values[a], values[b]) for a, b in pairs if a in values and b in values]
    unit = found.unit_of(one.at)
    if unit == "nats":
        return [abs(a - b) for a, b in known]
    if unit == "perplexity":
        return [abs(math.log(a / b)) for a, b in known]
    return []


def _hindrances(study: Study, one: Published, reach: Reach, sight: Sight, absent: Collection[str]) -> Iterator[str]:
    """What keeps a claim out of reach, the first counts."""
    found = reach.claim
    if found.expect is Expect.not_testable:
        yield "it cannot be tested with models of this size" + (f": {found.why}" if found.why else "")
    if not study.verdicts:
        yield f"tier {study.tier} has no verdicts"
    if not found.pairs:
        yield "it sets no two things against each other: its figures are printed"
    if not reach.pairs:
        where = f"at tier {study.tier}" if study.tier else "in the study"
        yield f"no two of its arms are {where}: {', '.join(absent)} left out"
    kind, seeds = ("tuning", study.seeds.tune) if reach.metric in OF_GRID else ("report", study.seeds.report)
    if len(seeds) < LEAST_SEEDS:
        yield f"{len(seeds)} {kind} seed{'' if len(seeds) == 1 else 's'}: {LEAST_SEEDS} or more are tested"
    if reach.visible == 0:
        assert reach.effect is not None
        yield f"published {_nats(reach.effect)} at most, and {_nats(sight.effect)} is the smallest effect seen"
    if found.want is Want.flat and LOSS.fullmatch(reach.metric) and sight.unit == "nats":
        margin = one.margin if one.margin is not None else study.stats.margin
        if margin is not None and (sight.effect or math.inf) > margin:
            yield f"level within {_nats(margin)} cannot be shown: {_nats(sight.effect)} is the smallest effect seen"


def _nats(value: float | None) -> str:
    return "none" if value is None else f"{value:.2g} nats"
