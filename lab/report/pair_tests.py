"""Tests of chosen pairs of a study's arms, on any number of their runs: what verdicts on published claims rest on.

A pair of a variant and the baseline on the study's own metric is a row of the table, and has its test and family,
so that the two never disagree. All other pairs of a metric, those of all claims of the study together, are a family
of their own, tested like the table's contrasts, as ``lab.report.combined`` says, corrected by Holm's method.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lab.report.combined import RHO_MOST, Combination, Combined, smallest_by_itself
from lab.report.effects import UNDECLARED, Effect, Effects, Stats, effects
from lab.report.metric import grid_step, said, value_of
from lab.report.variants import Variant
from lab.stats.contrast import Contrast, contrast
from lab.stats.holm import holm
from lab.stats.power import seeds_needed

Pair = tuple[str, str]
"""Labels of two arms; differences are of the first less the second."""

ENDED = ("done", "diverged")


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """How the baseline scatters over seeds, and in what family a pair is."""

    sd: float
    rho: float
    """Correlation of paired seeds."""
    m: int
    stats: Stats

    def seeds(self, effect: float) -> int | None:
        """About how many would see a difference of that size; None where that is more than anybody runs."""
        alpha, power = self.stats.alpha, self.stats.power
        return seeds_needed(abs(effect), sd=self.sd, m=self.m, rho=self.rho, alpha=alpha, power=power)


@dataclass(frozen=True, kw_only=True)
class PairTest:
    """What came of one pair."""

    arms: Pair
    contrast: Contrast | None
    p: float | None
    """Corrected by Holm's method."""
    margin: float | None
    """Of equivalence; None where none is known."""
    is_declared: bool
    """Whether somebody said the margin, and it is not a multiple of the scatter."""
    mde: float | None
    """The smallest difference that would have been seen; 0 where nothing scatters."""
    scatter: Scatter | None
    """What a number of seeds is planned with; None where it is not known."""
    baseline_diverged: int
    """Runs of the study's baseline that diverged, where it is one of the two."""
    beyond: int
    """Runs that diverged beyond those."""
    diverged: tuple[int, int]
    """Runs of either arm that diverged."""
    levels: tuple[str, str]
    """The number of either arm, mean over seeds, as it is read."""
    measured: bool
    """Whether every run that ended has the number."""
    ended: bool
    """Whether every run of the study ended."""

    @property
    def n(self) -> int:
        """Seeds behind the test."""
        return min(self.contrast.n, self.contrast.n_baseline) if self.contrast else 0


def pair_tests(
    arms: Sequence[Variant],
    pairs: Sequence[Pair],
    *,
    metric: str,
    stats: Stats,
    table: Effects | None,
    grid: Sequence[float] = (),
    family: Sequence[Pair] = (),
) -> list[PairTest]:
    """Test pairs of arms.

    Args:
        arms: all of the study with the metric in their records, the baseline first.
        pairs: of their labels.
        metric: a number of the records.
        stats: as of the study, with the margin that was declared for this metric.
        table: the study's; a row of it counts where it is about the same metric.
        grid: learning rates, of metrics that are made of them.
        family: further pairs that are tested on this metric.
    """
    if not pairs:
        return []
    pairs, asked = _once([*pairs, *family]), pairs
    base = arms[0].label
    rows = {row.label: row for row in table.rows} if table and table.metric == metric else {}
    in_table = [
        pair
        for pair in pairs
        if base in pair and (row := rows.get(_other(pair, base))) and row.verdict != UNDECLARED
    ]
    own = [pair for pair in pairs if pair not in in_table]
    found = {} if table is None else _found(in_table, table, len(in_table))
    if own:
        found |= _found(own, _family(arms, own, metric, stats), len(own))
    if metric == "first_diverging_lr":
        found = _no_finer(found, grid_step(grid), stats)
    by_label = {arm.label: arm for arm in arms}
    ended = all(run.get("status") in ENDED for arm in arms for run in arm.records)
    found = {pair: replace(test, ended=ended) for pair, test in found.items()}
    found |= {pair: _turned(found[pair[::-1]]) for pair in asked if pair not in found}
    return [
        _with_runs(found[pair], [by_label[label] for label in pair], metric, grid, stats.margin) for pair in asked
    ]


def _once(pairs: Sequence[Pair]) -> list[Pair]:
    """Each pair once, in the order in which it came first."""
    found: dict[frozenset[str], Pair] = {}
    for pair in pairs:
        found.setdefault(frozenset(pair), pair)
    return [*found.values()]


def _turned(test: PairTest) -> PairTest:
    """The test of the same two arms in the other order."""
    return replace(test, arms=test.arms[::-1], contrast=test.contrast and reversed_(test.contrast))


def _family(arms: Sequence[Variant], pairs: Sequence[Pair], metric: str, stats: Stats) -> Effects:
    base = arms[0].label
    return effects(
        arms,
        arms[0],
        metric=metric,
        stats=stats,
        m=len(pairs),
        declared={_other(pair, base) for pair in pairs if base in pair},
        combinations=[
            Combination(name=" - ".join(pair), plus=pair[:1], minus=pair[1:]) for pair in pairs if base not in pair
        ],
    )


def _found(pairs: Sequence[Pair], table: Effects, m: int) -> dict[Pair, PairTest]:
    """The pairs of a family."""
    rows = {row.label: row for row in table.rows}
    sums = {one.combination.arms: one for one in table.combined}
    found = {}
    for pair in pairs:
        is_row = table.baseline in pair
        one = rows[_other(pair, table.baseline)] if is_row else sums[pair]
        test = reversed_(one.contrast) if one.contrast and pair[0] == table.baseline else one.contrast
        found[pair] = PairTest(
            arms=pair,
            contrast=test,
            p=one.p,
            margin=table.margin,
            is_declared=table.stats.margin is not None,
            mde=smallest_by_itself(test, m, table.stats) if one.mde is None else one.mde,
            scatter=_scatter(table, one),
            baseline_diverged=table.baseline_diverged if is_row else 0,
            beyond=max(0, one.diverged - table.baseline_diverged) if is_row else one.diverged,
            diverged=(0, 0),
            levels=("", ""),
            measured=True,
            ended=True,
        )
    return found


def _scatter(table: Effects, one: Effect | Combined) -> Scatter | None:
    if isinstance(one, Combined) and one.is_apart:
        sd = one.contrast.arm_sd if one.contrast else 0.0
        return Scatter(sd=sd, rho=0.0, m=table.m, stats=table.stats) if sd else None
    if table.floor is None or table.floor.sd == 0:
        return None
    rho = min(max(table.rho or 0.0, 0.0), RHO_MOST) if one.is_paired else 0.0
    return Scatter(sd=table.floor.unbiased_sd, rho=rho, m=table.m, stats=table.stats)


def _with_runs(
    test: PairTest, arms: Sequence[Variant], metric: str, grid: Sequence[float], margin: float | None
) -> PairTest:
    """With what is known of the two arms apart."""
    values = [[value_of(run, metric) for run in arm.records] for arm in arms]
    ended = [[run for run in arm.records if run.get("status") in ENDED] for arm in arms]
    one, two = (sum(value == math.inf for value in side) for side in values)
    left, right = (said(metric, side, grid) for side in values)
    return replace(
        test,
        margin=test.margin if margin is None else margin,
        is_declared=margin is not None,
        diverged=(one, two),
        levels=(left, right),
        measured=all(ended) and all(value_of(run, metric) is not None for side in ended for run in side),
    )


def _no_finer(tests: Mapping[Pair, PairTest], step: float, stats: Stats) -> dict[Pair, PairTest]:
    """With standard errors that know of the grid: a value lies anywhere within a step, as if drawn evenly from it.

    Where all seeds diverge at one rate they show no scatter, and a test would be sure of a difference of one step.
    """
    m, sd = len(tests), step / math.sqrt(12)
    wider: dict[Pair, Contrast | None] = {}
    for pair, test in tests.items():
        one = test.contrast
        wider[pair] = one and contrast(
            one.mean,
            max(one.se, sd * math.sqrt(2 / one.n)),
            one.df,
            n=one.n,
            n_baseline=one.n_baseline,
            sd=one.sd,
            m=m,
            alpha=stats.alpha,
        )
    corrected = holm([None if one is None else one.p for one in wider.values()], m=m)
    return {
        pair: replace(tests[pair], contrast=one, p=p, mde=smallest_by_itself(one, m, stats))
        for (pair, one), p in zip(wider.items(), corrected, strict=True)
    }


def _other(pair: Pair, base: str) -> str:
    return pair[1] if pair[0] == base else pair[0]


def reversed_(test: Contrast) -> Contrast:
    """The same of the other order."""
    (low, high), (family_low, family_high) = test.interval, test.family_interval
    return replace(
        test,
        mean=-test.mean,
        t=-test.t,
        n=test.n_baseline,
        n_baseline=test.n,
        interval=(-high, -low),
        family_interval=(-family_high, -family_low),
    )
