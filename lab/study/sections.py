"""The sections of a study file; docs/studies.md describes each key."""

import dataclasses
from dataclasses import dataclass, field
from enum import StrEnum

from lab.component import check, check_number
from lab.errors import did_you_mean
from lab.stats.contrast import ALPHA
from lab.stats.power import POWER
from lab.study.published import check_measures
from lab.study.words import Settings

AXES = ("grid", "zip")
"""Designs that go through the values of ``axes``; the others compare ``variants``."""

DESIGNS = ("star", "hold-one-out", "pairwise", "list", *AXES)
"""What the arms are made of: see ``lab.study.design``."""

NO_VERDICTS = ("smoke",)
"""Tiers whose results are not judged, unless they say so."""


class LrMode(StrEnum):
    """How the learning rate of each arm is found."""

    shared = "shared"
    tuned = "tuned"
    curve = "curve"


class Matching(StrEnum):
    """What variants are made equal to the baseline in."""

    none = "none"
    params = "params"
    flops = "flops"


class Metric(StrEnum):
    """The number of ``result.json`` that verdicts are about; lower is better."""

    final_loss = "final_loss"
    early_loss = "early_loss"
    bits_per_byte = "bits_per_byte"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One arm as it is written."""

    name: str
    """In tables, contrasts and messages."""
    set: Settings = field(default_factory=dict)
    """What it changes; in the design ``list`` all that it is."""
    note: str | None = None
    """For readers."""
    start: str | None = None
    """An arm, whose run of the same seed it starts from the weights of; null: weights are drawn."""


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Which seeds are run."""

    report: list[int]
    """Seeds whose results are reported; arms are paired by them."""
    tune: list[int] = field(default_factory=list)
    """Seeds that only choose a learning rate; none of them is reported."""

    def __post_init__(self) -> None:
        check(bool(self.report), "report", self.report, "must name a seed")
        for key in ("report", "tune"):
            given = getattr(self, key)
            for seed in given:
                check_number(key, seed, least=0)
                check(given.count(seed) == 1, key, given, f"has {seed} twice")
        both = sorted({*self.report} & {*self.tune})
        check(not both, "tune", self.tune, f"must be apart from report: {', '.join(map(str, both))} is in both")

    def first(self, report: int | None = None, tune: int | None = None) -> "Seeds":
        """With so many of a kind: the first of those there are, and on from the largest; None: all there are."""
        counts = {"report": report, "tune": tune}
        kept = {key: _first(getattr(self, key), count) for key, count in counts.items() if count is not None}
        return dataclasses.replace(self, **kept)


def _first(seeds: list[int], count: int) -> list[int]:
    return [*seeds, *(max(seeds, default=0) + 1 + more for more in range(count))][:count]


@dataclass(frozen=True, kw_only=True)
class Lr:
    """How the learning rate is found."""

    mode: LrMode = LrMode.shared
    """``shared``: the one that is set; ``tuned``: each arm's best on ``grid``; ``curve``: so, on an even grid."""
    grid: list[float] = field(default_factory=list)
    """Learning rates to try, rising."""
    extend: int = 1
    """How often the grid grows by one where the best is at its edge."""

    def __post_init__(self) -> None:
        check_number("extend", self.extend, least=0)
        for rate in self.grid:
            check_number("grid", rate, above=0)
        rising = all(one < two for one, two in zip(self.grid, self.grid[1:], strict=False))
        check(rising, "grid", self.grid, "must rise")
        if self.mode is LrMode.shared:
            return
        least = 3 if self.mode is LrMode.curve else 2
        check(
            len(self.grid) >= least, "grid", self.grid, f"must have {least} rates or more: lr.mode is {self.mode}"
        )
        if self.mode is LrMode.curve:
            factors = [two / one for one, two in zip(self.grid, self.grid[1:], strict=False)]
            even = max(factors) / min(factors) < 1.2
            check(even, "grid", self.grid, "must rise by one factor: lr.mode curve takes a mean over it")


@dataclass(frozen=True, kw_only=True)
class Stats:
    """How verdicts are reached."""

    alpha: float = ALPHA
    """Error rate of all contrasts together."""
    power: float = POWER
    """Chance to see an effect that is called visible."""
    margin: float | None = None
    """Largest difference that counts as none, in the unit of ``primary``; null: 1.5 sd of the baseline."""

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, above=0, below=0.5)
        check_number("power", self.power, above=self.alpha, below=1)
        if self.margin is not None:
            check_number("margin", self.margin, above=0)


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What the study has to be able to see."""

    min_effect: float
    """The effect that is sought, in the unit of ``primary``."""
    sd: float | None = None
    """Standard deviation over seeds to plan with until the baseline's is measured; null: not known."""

    def __post_init__(self) -> None:
        check_number("min_effect", self.min_effect, above=0)
        if self.sd is not None:
            check_number("sd", self.sd, above=0)


@dataclass(frozen=True, kw_only=True)
class Tier:
    """A size of the study."""

    name: str
    """The value of ``tier`` that picks it."""
    set: Settings = field(default_factory=dict)
    """Settings of all arms, over those of ``study.set``."""
    arms: list[str] | None = None
    """Variants that are run, beside the baseline; null: all."""
    report: int | None = None
    """Number of report seeds; null: those of ``study.seeds``."""
    tune: int | None = None
    """Number of tuning seeds; null: those of ``study.seeds``."""
    lr: LrMode | None = None
    """Instead of ``study.lr.mode``."""
    verdicts: bool | None = None
    """Whether results are judged, and gated before; null: not in a tier called ``smoke``."""
    max_minutes: float | None = None
    """What it may take on the machine it is meant for; null: not said."""

    def __post_init__(self) -> None:
        for key, count in (("report", self.report), ("tune", self.tune)):
            if count is not None:
                check_number(key, count, least=1)
        if self.max_minutes is not None:
            check_number("max_minutes", self.max_minutes, above=0)
        if self.arms is not None:
            check(bool(self.arms), "arms", self.arms, "must name a variant")


@dataclass(frozen=True, kw_only=True)
class Plain:
    """The keys of a study that are no sections."""

    question: str
    """What is asked, in a sentence."""
    design: str
    """One of ``DESIGNS``."""
    match: Matching = Matching.none
    """What variants are made equal to the baseline in, by the width of the feed-forward branch."""
    primary: Metric = Metric.final_loss
    """The one number that verdicts are about."""
    measures: list[str] = field(default_factory=list)
    """What is measured of each reported run once it is done: names of ``lab/measure``."""
    max_epochs: float | None = None
    """Passes over its corpus that a run may make at most; null: as many as it takes."""

    def __post_init__(self) -> None:
        near = did_you_mean(self.design, DESIGNS)
        check(self.design in DESIGNS, "design", self.design, f"must be one of {', '.join(DESIGNS)}{near}")
        check_measures(self.measures)
        if self.max_epochs is not None:
            check_number("max_epochs", self.max_epochs, above=0)
