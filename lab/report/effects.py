"""Variants against a baseline: differences of paired seeds, how sure they are, and what may be said of them.

Rows are paired by seed where they share batches and initial weights, which hashes in ``result.json`` tell; they are
tested together by the moderated t of ``lab.stats.moderated``. Rows that share neither, such as those with another
tokenizer or ``study_seed``, are tested by Welch's t and marked. Every p is corrected by Holm's method over all
declared contrasts, a variant that diverged among them. A diverged seed counts as an infinite loss: it wins nothing.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from lab.report.pairs import Side, are_paired, side_of
from lab.report.rows import within
from lab.report.variants import Variant
from lab.stats.contrast import ALPHA, Contrast, differences, paired, pairing_correlation, welch
from lab.stats.equivalence import MARGIN_SDS, Equivalence, equivalence
from lab.stats.holm import holm
from lab.stats.moderated import moderated
from lab.stats.noise import Floor, noise_floor
from lab.stats.power import POWER, smallest_effect
from lab.stats.verdict import Evidence, verdict

RHO_MOST = 0.95
"""The largest pairing correlation that an MDE is planned with; few seeds overestimate it."""


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
) -> Effects:
    """Compare variants with a baseline.

    Args:
        variants: those of the table; the baseline may be among them and is passed over.
        baseline: what they are compared with.
        metric: a number of ``result.json``, lower is better.
        stats: how verdicts are reached; None: the usual.
        m: contrasts in the family; None: all variants that are given.
        missing: what is known to be missing, such as runs that never began; then there are no verdicts, and none
            where a run has failed or has not ended.
    """
    stats = stats or Stats()
    base = side_of(baseline, metric)
    others = [side_of(variant, metric) for variant in variants if variant is not baseline]
    m = max(len(others), 1) if m is None else m
    pairs = [are_paired(side.runs, base.runs) for side in others]
    contrasts, rho = _contrasts(others, base, pairs, m=m, alpha=stats.alpha)
    floor = noise_floor([*base.losses.values()], alpha=stats.alpha)
    margin = stats.margin or (MARGIN_SDS * floor.sd if floor and floor.sd > 0 else None)
    ps = [
        None if found is None or side.diverged else found.p for found, side in zip(contrasts, others, strict=True)
    ]
    found = Effects(
        metric=metric,
        baseline=base.label,
        baseline_losses=base.named(),
        baseline_diverged=base.diverged,
        rows=(),
        m=m,
        stats=stats,
        floor=floor,
        rho=rho,
        margin=margin,
        mde=_mde(floor, base.done, m, rho, stats),
        missing=(*missing, *_unended([base, *others])),
    )
    rows = [
        _effect(side, base, ok, contrast, p, found)
        for side, ok, contrast, p in zip(others, pairs, contrasts, holm(ps, m=m), strict=True)
    ]
    return _with_rows(found, rows)


def _contrasts(
    others: Sequence[Side], base: Side, pairs: Sequence[bool], *, m: int, alpha: float
) -> tuple[list[Contrast | None], float | None]:
    """The test of each variant, those that are paired together, and the pooled correlation of these."""
    y0 = [*base.losses.values()]
    together = [
        [side.losses.get(seed) for seed in base.losses] for side, ok in zip(others, pairs, strict=True) if ok
    ]
    tested = iter(moderated(differences(together, y0), m=m, alpha=alpha).rows)
    found = [
        next(tested) if ok else welch([*side.losses.values()], y0, m=m, alpha=alpha)
        for side, ok in zip(others, pairs, strict=True)
    ]
    return found, pairing_correlation(together, y0)


def _unended(sides: Sequence[Side]) -> Iterator[str]:
    for side in sides:
        for (seed, _), record in side.runs.items():
            if record.get("status") not in ("done", "diverged"):
                yield f"{side.label} seed {seed} {record.get('status')}"


@lru_cache(maxsize=256)
def _mde(floor: Floor | None, n: int, m: int, rho: float | None, stats: Stats) -> float | None:
    if floor is None or floor.sd == 0:
        return None
    rho = min(max(rho or 0.0, 0.0), RHO_MOST)
    return smallest_effect(floor.unbiased_sd, n=n, m=m, rho=rho, alpha=stats.alpha, power=stats.power)


def _effect(side: Side, base: Side, ok: bool, contrast: Contrast | None, p: float | None, table: Effects) -> Effect:
    names = dict(zip(side.losses, side.named(), strict=True))
    both = {s: (y, y0) for s, y in side.losses.items() if (y0 := base.losses.get(s)) is not None and y is not None}
    both = both if ok else {}
    evidence = Evidence(
        contrast=contrast,
        p=p,
        equivalence=_equivalent(contrast, table) if not side.diverged else None,
        mde=_mde(table.floor, contrast.n if contrast else 0, table.m, table.rho if ok else 0.0, table.stats),
        diverged=side.diverged,
        ended=side.done + side.diverged,
        baseline_diverged=base.diverged,
        sizes=(
            ("params", _more(side, base, "parameters", "total")),
            ("FLOPs", _more(side, base, "flops_per_token")),
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
        verdict="" if table.missing else verdict(evidence, alpha=table.stats.alpha),
    )


def _equivalent(contrast: Contrast | None, table: Effects) -> Equivalence | None:
    if contrast is None or table.margin is None:
        return None
    return equivalence(contrast, margin=table.margin, alpha=table.stats.alpha)


def _more(side: Side, base: Side, *keys: str) -> float | None:
    """What a variant has more of, as a share of the baseline's."""
    mine, theirs = (
        next((v for record in runs.values() if (v := within(record, *keys)) is not None), None)
        for runs in (side.runs, base.runs)
    )
    return mine / theirs - 1 if mine is not None and theirs else None


def _with_rows(found: Effects, rows: Sequence[Effect]) -> Effects:
    return replace(found, rows=tuple(rows), footer=tuple(_footer(found, rows)))


def _footer(found: Effects, rows: Sequence[Effect]) -> Iterator[str]:
    kinds = ["moderated paired t"] if any(row.is_paired for row in rows) else []
    kinds += ["Welch's t for unpaired rows"] if any(not row.is_paired for row in rows) else []
    if kinds:
        yield f"Δ {found.metric} against {found.baseline}: {', '.join(kinds)}; Holm over {found.m}"
    scatter = [f"floor sd {found.floor.sd:.2g} of {found.floor.n} seeds"] if found.floor else []
    scatter += [f"pairing correlation {found.rho:.2f}"] if found.rho is not None else []
    scatter += [f"margin ±{found.margin:.2g}"] if found.margin is not None else []
    if scatter:
        yield "; ".join(scatter)
    if found.missing:
        more = f" and {len(found.missing) - 3} more" if len(found.missing) > 3 else ""
        yield f"no verdicts, the table is not complete: {', '.join(found.missing[:3])}{more}"
