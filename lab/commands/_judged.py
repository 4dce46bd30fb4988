"""The claims that a study tests, judged from plain values: its declaration and the results of its runs.

``judged`` reads of each result ``status``, ``config`` (``seed``, ``study_seed``, ``optim.lr``, ``data.name``, sizes
of the tokenizer), ``hashes``, ``parameters``, ``tokens``, ``flops_per_token`` and what the claims' metrics name, so
that the same verdicts come of results that were stored, years after the runs are gone. The tests are those of
``lab.report.pair_tests``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.commands._family import family_of
from lab.report.comparison import compare
from lab.report.effects import Stats
from lab.report.metric import is_of_grid, of_arm, value_of
from lab.report.page.claim_list import scale
from lab.report.pair_tests import PairTest, pair_tests
from lab.report.variants import Record, Variant
from lab.runs.units import unit
from lab.stats.contrast import SEEDS_LEAST
from lab.stats.equivalence import equivalence
from lab.study.claim_verdict import Measured, judge, kind_of, summary
from lab.study.claims import SECOND_HAND, Claim, Want, claim
from lab.study.published import Published, within_runs


@dataclass(frozen=True, kw_only=True)
class PairVerdict:
    """One pair of a claim. All differences are of the better one less the worse."""

    better: str
    """Its name in the claim; of a flat claim the first of the two."""
    worse: str
    arms: tuple[str, str]
    """Their arms."""
    published: float | None
    """The published difference; None where there is no figure for both."""
    mean: float | None
    interval: tuple[float, float] | None
    """Of the whole family."""
    p: float | None
    """Corrected by Holm's method."""
    n: int
    """Seeds."""
    mde: float | None
    diverged: tuple[int, int]
    """Runs of the arms."""
    levels: tuple[str, str]
    """Our number of each arm, mean over seeds, as it is read."""
    verdict: str
    """Empty where nothing may be said: at a tier that is not judged, or of a claim without a direction."""


@dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """A claim of a study over its pairs."""

    claim: Claim
    metric: str
    want: Want | None
    """Which way our number is better for the better one."""
    at: str | None
    """Of the published figures."""
    pairs: tuple[PairVerdict, ...]
    scale: str
    """Of our runs, in words."""
    tier: str | None
    note: str | None
    """Of the study, what stands in place of what was published."""

    @property
    def verdict(self) -> str:
        """Over all pairs; empty where nothing may be said."""
        return summary([pair.verdict for pair in self.pairs], of=len(self.claim.pairs))

    @property
    def kind(self) -> str:
        """The verdict in a word or two, to be counted by."""
        return kind_of([pair.verdict for pair in self.pairs])

    @property
    def data(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        claim, mdes = self.claim, [pair.mde for pair in self.pairs if pair.mde is not None]
        return {
            "claim": claim.id,
            "statement": claim.statement,
            "source": claim.source,
            "setup": claim.setup,
            "told": claim.read in SECOND_HAND,
            "caveat": claim.caveat,
            "published_unit": claim.unit_of(self.at),
            "pairs_of_claim": len(claim.pairs),
            "metric": self.metric,
            "note": self.note,
            "unit": unit(self.metric),
            "want": None if self.want is None else str(self.want),
            "verdict": self.verdict or None,
            "kind": self.kind or None,
            "seeds": min(pair.n for pair in self.pairs),
            "mde": max(mdes, default=None),
            "scale": self.scale,
            "tier": self.tier,
            "pairs": [_pair_data(pair) for pair in self.pairs],
        }


def _pair_data(pair: PairVerdict) -> dict[str, Any]:
    return {
        "better": pair.better,
        "worse": pair.worse,
        "arms": list(pair.arms),
        "published": pair.published,
        "mean": pair.mean,
        "interval": None if pair.interval is None else list(pair.interval),
        "p": pair.p,
        "n": pair.n,
        "mde": pair.mde,
        "diverged": list(pair.diverged),
        "levels": list(pair.levels),
        "verdict": pair.verdict or None,
    }


Runs = Mapping[str, Sequence[Record]]
"""Results by arm, the baseline first."""


def judged(
    declared: Mapping[str, Any], runs: Runs, *, tuning: Runs | None = None, missing: Sequence[str] = ()
) -> list[ClaimVerdict]:
    """The verdicts of a study on the claims that it names, of which at least one pair is of two of its arms.

    Args:
        declared: the study at its tier, as ``study.json`` has it.
        runs: the reported ones, of all arms that are declared.
        tuning: those on seeds that only chose a learning rate.
        missing: runs that there ought to be, a few words each; then every claim is incomplete.

    Raises:
        ConfigError: a claim that the study names is not there any more.
    """
    if not declared.get("published") or not runs:
        return []
    study = _Study(declared, runs, tuning or {}, tuple(missing))
    found = [_of_claim(study, one) for one in study.published]
    return [one for one in found if one.pairs]


class _Study:
    """What the claims of one study have in common."""

    def __init__(self, declared: Mapping[str, Any], runs: Runs, tuning: Runs, missing: tuple[str, ...]) -> None:
        self.runs, self.tuning, self.missing = runs, tuning, missing
        self.tier = declared.get("tier")
        self.is_judged = declared.get("verdicts") is not False
        self.grid = [float(rate) for rate in (declared.get("lr") or {}).get("grid") or ()]
        self.arms = [Variant(arm, {}, tuple(records)) for arm, records in runs.items()]
        family = family_of(declared, [*runs])
        self.stats: Stats = family["stats"]
        self.table = compare(self.arms, **{**family, "missing": [*missing, *family["missing"]]}).effects
        self.primary = self.table.metric if self.table else str(family["metric"])
        self.scale = scale([record for records in runs.values() for record in records])
        self.published = [Published(**one) for one in declared["published"]]

    def metric(self, one: Published) -> str:
        """The number that a claim is tested by."""
        return one.metric or self.primary

    def pairs(self, one: Published) -> list[tuple[tuple[str, str], tuple[str, str]]]:
        """The pairs of a claim of which both arms are there: names in the claim, and arms."""
        named = [(better, worse) for better, worse in claim(one.claim).pairs]
        if within_runs(self.metric(one)):
            return [(names, names) for names in named]
        found = [((a, b), (one.arms.get(a, a), one.arms.get(b, b))) for a, b in named]
        return [(names, arms) for names, arms in found if {*arms} <= self.runs.keys() and arms[0] != arms[1]]

    def family(self, metric: str) -> list[tuple[str, str]]:
        """The pairs of arms that any claim is tested by on this metric."""
        same = [] if within_runs(metric) else self.published
        return [arms for one in same if self.metric(one) == metric for _, arms in self.pairs(one)]

    def with_metric(self, metric: str) -> list[Variant]:
        """The arms, with the metric in their records."""
        runs = self.tuning if is_of_grid(metric) else self.runs
        return [of_arm(arm, runs.get(arm, ()), metric, self.grid) for arm in self.runs]

    def within(self, metric: str, pairs: Sequence[tuple[str, str]]) -> list[Variant]:
        """The baseline once for each name of a claim, with the number of that name for its metric."""
        runs, path = next(iter(self.runs.values())), metric.split(".")
        return [
            Variant(name, {}, tuple(_put(run, path, value_of(run, metric.format(name))) for run in runs))
            for name in dict.fromkeys(name for pair in pairs for name in pair)
        ]


def _put(record: Record, path: Sequence[str], value: Any) -> Record:
    """A record with a value at a path."""
    first, *rest = path
    inner = record.get(first)
    return {**record, first: _put(inner if isinstance(inner, Mapping) else {}, rest, value) if rest else value}


def _of_claim(study: _Study, one: Published) -> ClaimVerdict:
    found = claim(one.claim)
    metric = study.metric(one)
    want = one.wanted(found, metric)
    pairs = study.pairs(one)
    own = study.stats.margin if metric == study.primary else None
    margin = own if one.margin is None else one.margin
    tests = pair_tests(
        study.within(metric, [names for names, _ in pairs]) if within_runs(metric) else study.with_metric(metric),
        [arms for _, arms in pairs],
        metric=metric,
        stats=replace(study.stats, margin=margin),
        table=study.table,
        grid=study.grid,
        family=study.family(metric),
    )
    verdicts = [
        _verdict(study, found, one, unit(metric), want, names, test)
        for (names, _), test in zip(pairs, tests, strict=True)
    ]
    return ClaimVerdict(
        claim=found,
        metric=metric,
        want=want,
        at=one.at or found.at,
        pairs=tuple(verdicts),
        scale=study.scale,
        tier=study.tier,
        note=one.note,
    )


def _verdict(
    study: _Study,
    found: Claim,
    one: Published,
    ours: str,
    want: Want | None,
    names: tuple[str, str],
    test: PairTest,
) -> PairVerdict:
    """Of one pair, in our unit."""
    published = found.delta(*names, one.at) if one.at or found.at else None
    same = published if found.unit_of(one.at) == ours else None
    enough = test.contrast is not None and test.n >= SEEDS_LEAST
    measured = Measured(
        complete=not study.missing and test.ended,
        measured=test.measured,
        baseline_diverged=test.baseline_diverged,
        diverged=test.beyond,
        p=test.p if enough else None,
        mean=test.contrast.mean if test.contrast else None,
        interval=test.contrast.family_interval if test.contrast else None,
        equivalent=_level(test, study.stats.alpha, any_margin=same is not None or want is Want.flat),
        mde=test.mde,
        needed=test.scatter.seeds(same) if same and test.scatter else None,
        alpha=study.stats.alpha,
    )
    side = {Want.lower: -1, Want.higher: 1, Want.flat: 0, None: None}[want]
    word = "" if side is None or not study.is_judged else judge(found, measured, side=side, published=same)
    if word.startswith("diverged"):
        lost = [f"{arm} {count}" for arm, count in zip(test.arms, test.diverged, strict=True) if count]
        word += f" (runs: {', '.join(lost)})"
    return PairVerdict(
        better=names[0],
        worse=names[1],
        arms=test.arms,
        published=published,
        mean=measured.mean,
        interval=measured.interval,
        p=test.p,
        n=test.n,
        mde=test.mde,
        diverged=test.diverged,
        levels=test.levels,
        verdict=word,
    )


def _level(test: PairTest, alpha: float, *, any_margin: bool) -> float | None:
    """The margin within which two are equal; None where they are not shown to be.

    A margin that nobody declared counts only beside a published difference in our unit, or where none was said.
    """
    if test.contrast is None or not test.margin or not (test.is_declared or any_margin):
        return None
    return test.margin if equivalence(test.contrast, margin=test.margin, alpha=alpha).equivalent else None
