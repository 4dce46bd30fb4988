"""Published claims that the rows of a table meet: the figures of a paper beside ours."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.report.claims_grid import pair_said, published_said
from lab.report.comparison import Comparison
from lab.report.effects import UNDECLARED, Effect, Effects
from lab.report.settings import IGNORED
from lab.report.variants import Variant, choice, config_of
from lab.runs.identity import without
from lab.runs.units import unit
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
        """The figure, with its unit where it is not nats, and its mark."""
        said = {"published_unit": self.claim.unit, "told": self.claim.read in SECOND_HAND}
        return published_said(said, {"published": self.delta})

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
            "published": self.text,
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
    """The comparison with two columns more and the lines below them, where a claim is about one of its rows.

    A claim that a study names itself comes first, and is not told a second time of a row that has it.
    """
    own = list(_of_rows(made))
    known = {(each["variant"], each["claim"]) for each in own}
    found = published(made.effects, made.variants, made.variants[0]) if made.effects else []
    said = [each for each in found if (each.label, each.claim.id) not in known]
    if not said and not made.judged:
        return made
    cells = [(each["variant"], each["text"], each["verdict"]) for each in own]
    cells += [(each.label, each.text, each.verdict) for each in said]
    first = {label: (text, verdict) for label, text, verdict in reversed(cells)}
    columns = {
        "published Δ": {label: text for label, (text, _) in first.items()},
        "claim": {label: verdict or "no claim" for label, (_, verdict) in first.items()},
    }
    lines = tuple(each.line for each in said)
    claims = (*(each.data for each in said), *(line for one in made.judged for line in _flat(one)))
    return replace(made, published=columns if first else {}, claims=claims, lines=(*made.lines, *lines))


def _of_rows(made: Comparison) -> Iterator[dict[str, Any]]:
    """Of the claims that a study names, the pairs that are rows of the table; differences as the row's."""
    base = made.variants[0].label
    for one in made.judged:
        for pair in one["pairs"]:
            if made.effects is None or one["metric"] != made.effects.metric or base not in pair["arms"]:
                continue
            better, worse = pair["arms"]
            sign = -1 if better == base else 1
            delta = None if pair["published"] is None else sign * pair["published"]
            yield {
                "variant": worse if better == base else better,
                "claim": one["claim"],
                "text": published_said(one, {"published": delta}),
                "verdict": pair["verdict"],
            }


def _flat(one: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The pairs of a claim that a study names, in the keys of those that a table finds by itself."""
    common = {key: one[key] for key in ("claim", "statement", "source", "told", "caveat", "metric", "note", "unit")}
    for pair in one["pairs"]:
        yield {
            **common,
            "variant": pair_said(one, pair),
            "scale": one["setup"],
            "delta": pair["published"],
            "published": published_said(one, pair),
            "measured": {key: pair[key] for key in ("mean", "interval", "p", "mde", "n")},
            "verdict": pair["verdict"],
            "overall": one["verdict"],
        }


def published(found: Effects, variants: Sequence[Variant], baseline: Variant) -> list[Published]:
    """The claims about rows that differ from the baseline in one choice and in nothing else, in the rows' order.

    Figures that go with no claim are told of a row only where there is none about it, and once.
    """
    by_label = {variant.label: variant for variant in variants}
    theirs = _config(baseline)
    said: list[Published] = []
    for row in found.rows:
        if row.is_paired and row.label in by_label and row.verdict != UNDECLARED:
            every = list(_of(row, found, by_label[row.label], baseline, theirs))
            said += [each for each in every if each.verdict] or every[:1]
    return said


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
        same = claim.unit == unit(found.metric)
        measured = _measured(row, found, any_margin=same)
        judged = judge(claim, measured, side=side, published=delta if same else None) if side is not None else ""
        yield Published(
            label=row.label, claim=claim, delta=delta, verdict=judged, measured=measured, seeds=row.ended
        )


def _measured(row: Effect, found: Effects, *, any_margin: bool) -> Measured:
    """What the row came to; a margin that nobody declared counts only beside a published difference in our unit."""
    equal = row.equivalence if any_margin or found.stats.margin is not None else None
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
