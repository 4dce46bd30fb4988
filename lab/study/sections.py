"""The sections of a study file; docs/studies.md describes each key."""

import dataclasses
from dataclasses import dataclass, field
from enum import StrEnum

from lab.component import check, check_number
from lab.errors import did_you_mean
from lab.stats.contrast import ALPHA
from lab.stats.power import POWER
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

    def first(self, count: int) -> "Seeds":
        """With so many report seeds: the first of those there are, and on from the largest."""
        report = [*self.report]
        while len(report) < count:
            report.append(max(report) + 1)
        return dataclasses.replace(self, report=report[:count])


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
    report: int | None = None
    """Number of report seeds; null: those of ``study.seeds``."""
    lr: LrMode | None = None
    """Instead of ``study.lr.mode``."""
    verdicts: bool | None = None
    """Whether results are judged, and gated before; null: not in a tier called ``smoke``."""

    def __post_init__(self) -> None:
        if self.report is not None:
            check_number("report", self.report, least=1)


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

    def __post_init__(self) -> None:
        near = did_you_mean(self.design, DESIGNS)
        check(self.design in DESIGNS, "design", self.design, f"must be one of {', '.join(DESIGNS)}{near}")
