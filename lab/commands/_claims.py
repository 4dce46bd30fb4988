"""Published claims that the rows of a table meet: the figures of a paper beside ours."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.report.comparison import Comparison
from lab.report.effects import UNDECLARED, Effect, Effects
from lab.report.settings import IGNORED
from lab.report.variants import Variant, choice, config_of
from lab.runs.identity import without
from lab.study.claim_verdict import Measured, judge
from lab.study.claims import SECOND_HAND, Claim, claims_of


@dataclass(frozen=True, kw_only=True)
class Published:
    """What a claim says of one row, and what is to be said of the claim."""

    label: str
    """The row's."""
    claim: Claim
    delta: float
    """Published, variant minus baseline, in nats."""
    verdict: str
    """Empty where the claim says nothing of this pair, and only has figures for it."""
    measured: Measured
    seeds: int
    """Of the row, that ended."""

    @property
    def text(self) -> str:
        """The figure, with its mark."""
        return f"{self.delta:+.3f}{self.claim.mark}"

    @property
    def data(self) -> dict[str, Any]:
        """For JSON."""
        claim = self.claim
        return {
            "variant": self.label,
            "claim": claim.id,
            "statement": claim.statement,
            "source": claim.source,
            "scale": claim.setup,
            "delta": self.delta,
            "told": claim.read in SECOND_HAND,
            "measured": {
                "mean": self.measured.mean,
                "interval": self.measured.interval,
                "p": self.measured.p,
                "mde": self.measured.mde,
                "n": self.seeds,
            },
            "verdict": self.verdict or None,
            "caveat": claim.caveat,
        }

    @property
    def line(self) -> str:
        """For below a table, in pieces between semicolons: the verdict, and what was said at which scale."""
        claim = self.claim
        pieces = [
            f"{claim.id} on {self.label}: {self.verdict or 'figures alone, no claim'}",
            f"published Δ {self.text}",
        ]
        pieces += [f"at {claim.setup}", claim.source, *([claim.caveat] if claim.caveat else [])]
        return "; ".join(pieces)


def with_claims(made: Comparison) -> Comparison:
    """The comparison with two columns more and the lines below them, where a claim is about one of its rows."""
    said = published(made.effects, made.variants, made.variants[0]) if made.effects else []
    if not said:
        return made
    first = {each.label: each for each in reversed(said)}
    columns = {
        "published Δ": {label: each.text for label, each in first.items()},
        "claim": {label: each.verdict or "no claim" for label, each in first.items()},
    }
    lines = tuple(each.line for each in said)
    return replace(made, published=columns, claims=tuple(each.data for each in said), lines=(*made.lines, *lines))


def published(found: Effects, variants: Sequence[Variant], baseline: Variant) -> list[Published]:
    """The claims about rows that differ from the baseline in one choice and in nothing else, in the rows' order."""
    by_label = {variant.label: variant for variant in variants}
    theirs = _config(baseline)
    return [
        each
        for row in found.rows
        if row.is_paired and row.label in by_label and row.verdict != UNDECLARED
        for each in _of(row, found, by_label[row.label], baseline, theirs)
    ]


def _of(
    row: Effect, found: Effects, variant: Variant, baseline: Variant, theirs: Mapping[str, Any]
) -> Iterator[Published]:
    group = _differing(_config(variant), theirs)
    if group is None:
        return
    for claim in claims_of(group):
        names = [str(choice(one.records[0], group)) for one in (variant, baseline)]
        delta = claim.delta(*names)
        if claim.metric != found.metric or delta is None:
            continue
        side = claim.about({group: names[0]}, {group: names[1]})
        measured = _measured(row, found)
        verdict = judge(claim, measured, side=side, published=delta) if side else ""
        yield Published(
            label=row.label, claim=claim, delta=delta, verdict=verdict, measured=measured, seeds=row.ended
        )


def _measured(row: Effect, found: Effects) -> Measured:
    equal = row.equivalence
    return Measured(
        complete=not found.missing,
        baseline_diverged=found.baseline_diverged,
        diverged=max(0, row.diverged - found.baseline_diverged),
        p=row.p if row.verdict else None,
        mean=row.contrast.mean if row.contrast else None,
        interval=row.contrast.family_interval if row.contrast else None,
        equivalent=equal.margin if equal and equal.equivalent else None,
        mde=row.mde,
        alpha=found.stats.alpha,
    )


def _config(variant: Variant) -> Mapping[str, Any]:
    """What decides a run but its seeds, and the learning rate, which each arm may have its own of."""
    return without(config_of(variant.records[0]), (*IGNORED, "optim.lr", "preset", "preset_size"))


def _differing(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
    """The one section in which two configurations differ, and differ in the choice; None for any other case."""
    differing = [key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key)]
    if len(differing) != 1:
        return None
    one, two = (part.get(differing[0]) for part in (mine, theirs))
    chosen = isinstance(one, Mapping) and isinstance(two, Mapping) and one.get("name") != two.get("name")
    return differing[0] if chosen else None
