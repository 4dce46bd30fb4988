"""Variants against a baseline: differences of paired seeds, how sure they are, and what may be said of them.

Rows are paired by seed where they share batches and initial weights, which hashes in ``result.json`` tell; they are
tested together by the moderated t of ``lab.stats.moderated``. Rows that share neither, such as those with another
tokenizer or ``study_seed``, are tested by Welch's t and marked. Every p is corrected by Holm's method over all
declared contrasts, a variant that diverged among them. A diverged seed counts as an infinite loss: it wins nothing.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lab.report.combined import Arms, Combination, Combined, combined, smallest
from lab.report.pairs import Side, are_paired, more_of, side_of, unended
from lab.report.variants import Variant
from lab.stats.contrast import ALPHA, Contrast, differences, paired, pairing_correlation, welch
from lab.stats.equivalence import MARGIN_SDS, Equivalence, equivalence
from lab.stats.holm import holm
from lab.stats.moderated import moderated
from lab.stats.noise import Floor, noise_floor
from lab.stats.power import POWER
from lab.stats.verdict import Evidence, verdict

UNDECLARED = "not declared"
"""Of a variant whose difference from the baseline is no contrast of its study."""


@dataclass(frozen=True, kw_only=True)
class Stats:
    """How verdicts are reached."""

    alpha: float = ALPHA
    """Error rate of all contrasts together."""
    power: float = POWER
    """Chance to see an effect that is called visible."""
    margin: float | None = None
    """Of equivalence, in the unit of the metric; None: ``MARGIN_SDS`` of the floor."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One variant against the baseline; differences are variant minus baseline, so that negative is better."""

    label: str
    """The variant's."""
    n: int
    """Seeds that finished."""
    diverged: int
    """Seeds that diverged."""
    ended: int
    """Seeds that finished or diverged."""
    losses: dict[str, float | None]
    """The metric by seed; infinite where it diverged, None where there is no result."""
    baseline_losses: dict[str, float | None]
    """The baseline's, by its seeds."""
    is_paired: bool
    """Whether the seeds are pairs; else the test is Welch's."""
    differences: dict[str, float]
    """By seed, of pairs that finished; empty where the row is not paired."""
    contrast: Contrast | None
    """The test that counts: moderated, or Welch's where the row is not paired."""
    p: float | None
    """Of the test, corrected by Holm's method."""
    equivalence: Equivalence | None
    mde: float | None
    """The smallest difference that is seen with the power asked for."""
    wins: int | None
    """Seeds below their pair; None where the row is not paired."""
    pairs: int
    """Seeds that ended in both."""
    params: float | None
    """Of all parameters, as a share of the baseline's: 0.02 is 2 % more."""
    flops: float | None
    """Of training FLOPs per token, alike."""
    verdict: str
    """Empty where nothing may be said."""

    def paired(self, *, m: int, alpha: float = ALPHA) -> Contrast | None:
        """The plain paired t, to stand beside; None where the row is not paired."""
        if not self.is_paired:
            return None
        seeds = self.losses.keys() & self.baseline_losses.keys()
        return paired(*([side[s] for s in sorted(seeds)] for side in self._sides()), m=m, alpha=alpha)

    def welch(self, *, m: int, alpha: float = ALPHA) -> Contrast | None:
        """Welch's t, to stand beside."""
        return welch(*([*side.values()] for side in self._sides()), m=m, alpha=alpha)

    def _sides(self) -> tuple[dict[str, float | None], dict[str, float | None]]:
        return self.losses, self.baseline_losses


@dataclass(frozen=True, kw_only=True)
class Effects:
    """All contrasts with one baseline."""

    metric: str
    """The number of ``result.json`` they are about."""
    baseline: str
    """The label of the baseline."""
    baseline_losses: dict[str, float | None]
    baseline_diverged: int
    rows: tuple[Effect, ...]
    """The variants without the baseline, in the order they were given."""
    m: int
    """Contrasts in the family."""
    stats: Stats
    floor: Floor | None
    """Scatter of the baseline over seeds."""
    rho: float | None
    """Pooled correlation of paired seeds; None without two pairs."""
    margin: float | None
    """Of equivalence; None where it is not known."""
    mde: float | None
    """The smallest visible difference at the baseline's number of seeds."""
    missing: tuple[str, ...]
    """Why there are no verdicts; empty where the table is complete."""
    combined: tuple[Combined, ...] = ()
    """The contrasts of the family that are no variant less the baseline."""
    footer: tuple[str, ...] = field(default=())
    """Lines: test, family, floor, pairing."""


def effects(
    variants: Sequence[Variant],
    baseline: Variant,
    *,
    metric: str = "final_loss",
    stats: Stats | None = None,
    m: int | None = None,
    missing: Sequence[str] = (),
    declared: Collection[str] | None = None,
    combinations: Sequence[Combination] = (),
) -> Effects:
    """Compare variants with a baseline.

    Args:
        variants: those of the table; the baseline may be among them and is passed over.
        baseline: what they are compared with.
        metric: a number of ``result.json``, lower is better.
        stats: how verdicts are reached; None: the usual.
        m: contrasts in the family; None: all that are given.
        missing: what is known to be missing, such as runs that never began; then there are no verdicts, and none
            where a run has failed or has not ended.
        declared: labels of the variants whose difference from the baseline is in the family; None: all.
        combinations: the other contrasts of the family.
    """
    stats = stats or Stats()
    base = side_of(baseline, metric)
    others = [side_of(variant, metric) for variant in variants if variant is not baseline]
    counted = [declared is None or side.label in declared for side in others]
    m = max(sum(counted) + len(combinations), 1) if m is None else m
    pairs = [are_paired(side.runs, base.runs) for side in others]
    arms = Arms(
        {side.label: side for side in (base, *others)},
        {base.label, *(side.label for side, ok in zip(others, pairs, strict=True) if ok)},
    )
    contrasts, sums, rho = _tests(others, base, pairs, arms, combinations, m=m, alpha=stats.alpha)
    lost = [side.diverged for side in others] + [arms.runs(one)[0] for one in combinations]
    tests = zip([*contrasts, *sums], lost, [*counted, *(True for _ in sums)], strict=True)
    corrected = iter(holm([None if one is None or k else one.p for one, k, counts in tests if counts], m=m))
    found = _without_rows(base, others, metric, stats, m=m, rho=rho, missing=missing)
    rows = [
        _effect(side, base, ok, contrast, next(corrected) if counts else None, found, counts)
        for side, ok, contrast, counts in zip(others, pairs, contrasts, counted, strict=True)
    ]
    more = [combined(one, arms, test, p, found) for one, test, p in zip(combinations, sums, corrected, strict=True)]
    found = replace(found, rows=tuple(rows), combined=tuple(more))
    return replace(found, footer=tuple(_footer(found)))


def _without_rows(
    base: Side,
    others: Sequence[Side],
    metric: str,
    stats: Stats,
    *,
    m: int,
    rho: float | None,
    missing: Sequence[str],
) -> Effects:
    """What the rows have in common."""
    floor = noise_floor([*base.losses.values()], alpha=stats.alpha)
    return Effects(
        metric=metric,
        baseline=base.label,
        baseline_losses=base.named(),
        baseline_diverged=base.diverged,
        rows=(),
        m=m,
        stats=stats,
        floor=floor,
        rho=rho,
        margin=stats.margin or (MARGIN_SDS * floor.sd if floor and floor.sd > 0 else None),
        mde=smallest(floor, base.done, m, rho, stats),
        missing=(*missing, *unended([base, *others])),
    )


def _tests(
    others: Sequence[Side],
    base: Side,
    pairs: Sequence[bool],
    arms: Arms,
    combinations: Sequence[Combination],
    *,
    m: int,
    alpha: float,
) -> tuple[list[Contrast | None], list[Contrast | None], float | None]:
    """The test of each variant and of each combination, those that are paired together; the pooled correlation."""
    y0 = [*base.losses.values()]
    together = [
        [side.losses.get(seed) for seed in base.losses] for side, ok in zip(others, pairs, strict=True) if ok
    ]
    beside = [arms.by_seed(one, base.losses, 1 / one.scale) for one in combinations if arms.share_baseline(one)]
    tested = moderated(differences(together, y0), m=m, alpha=alpha, beside=beside)
    rows, scaled = iter(tested.rows), iter(tested.beside)
    found = [
        next(rows) if ok else welch([*side.losses.values()], y0, m=m, alpha=alpha)
        for side, ok in zip(others, pairs, strict=True)
    ]
    sums = []
    for one in combinations:
        if arms.share_baseline(one):
            test = next(scaled)
            sums.append(None if test is None else test.times(one.scale))
        elif arms.are_paired(one):
            sums.extend(moderated([arms.by_seed(one, base.losses)], m=m, alpha=alpha).rows)
        else:
            sums.append(arms.welch(one, m=m, alpha=alpha))
    return found, sums, pairing_correlation(together, y0)


def _effect(
    side: Side, base: Side, ok: bool, contrast: Contrast | None, p: float | None, table: Effects, counts: bool
) -> Effect:
    names = dict(zip(side.losses, side.named(), strict=True))
    both = {s: (y, y0) for s, y in side.losses.items() if (y0 := base.losses.get(s)) is not None and y is not None}
    both = both if ok else {}
    evidence = Evidence(
        contrast=contrast,
        p=p,
        equivalence=_equivalent(contrast, table) if not side.diverged else None,
        mde=smallest(table.floor, contrast.n if contrast else 0, table.m, table.rho if ok else 0.0, table.stats),
        diverged=side.diverged,
        ended=side.done + side.diverged,
        baseline_diverged=base.diverged,
        sizes=(
            ("params", more_of(side, base, "parameters", "total")),
            ("FLOPs", more_of(side, base, "flops_per_token")),
        ),
    )
    return Effect(
        label=side.label,
        n=side.done,
        diverged=side.diverged,
        ended=evidence.ended,
        losses=side.named(),
        baseline_losses=base.named(),
        is_paired=ok,
        differences={names[s]: y - y0 for s, (y, y0) in both.items() if math.isfinite(y) and math.isfinite(y0)},
        contrast=contrast,
        p=p,
        equivalence=evidence.equivalence,
        mde=evidence.mde,
        wins=sum(y < y0 for y, y0 in both.values()) if ok else None,
        pairs=len(both),
        params=evidence.sizes[0][1],
        flops=evidence.sizes[1][1],
        verdict="" if table.missing else verdict(evidence, alpha=table.stats.alpha) if counts else UNDECLARED,
    )


def _equivalent(contrast: Contrast | None, table: Effects) -> Equivalence | None:
    if contrast is None or table.margin is None:
        return None
    return equivalence(contrast, margin=table.margin, alpha=table.stats.alpha)


def _footer(found: Effects) -> Iterator[str]:
    paired = [row.is_paired for row in found.rows]
    kinds = ["moderated paired t"] if any(paired) else []
    kinds += ["paired t for pairs of each other"] if any(one.is_apart for one in found.combined) else []
    kinds += ["Welch's t for unpaired rows"] if not all(paired) else []
    if kinds:
        yield f"Δ {found.metric} against {found.baseline}: {', '.join(kinds)}; Holm over {found.m}"
    scatter = [f"floor sd {found.floor.sd:.2g} of {found.floor.n} seeds"] if found.floor else []
    scatter += [f"pairing correlation {found.rho:.2f}"] if found.rho is not None else []
    scatter += [f"margin ±{found.margin:.2g}"] if found.margin is not None else []
    if scatter:
        yield "; ".join(scatter)
    if any(row.verdict == UNDECLARED for row in found.rows):
        yield f"{UNDECLARED}: no contrast of the study, outside the family"
    if found.combined:
        yield "contrasts: by the same tests; additive: two changes together do what each does alone, summed"
    if found.missing:
        more = f" and {len(found.missing) - 3} more" if len(found.missing) > 3 else ""
        yield f"no verdicts, the table is not complete: {', '.join(found.missing[:3])}{more}"
