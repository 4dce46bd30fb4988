"""The published claims that a study tests, as a block of its own below a table: one row a pair."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.report.grid import NONE, Column, Grid
from lab.report.notes import si
from lab.stats.digits import two

SIGNS = {"lower": "<", "higher": ">", "flat": "="}
"""Between the two of a pair: how our number of the first stands to that of the second, if the claim holds."""

Said = Mapping[str, Any]
"""A claim with its pairs, as ``ClaimVerdict.data`` has it."""


def claims_grid(judged: Sequence[Said], alpha: float = 0.05) -> list[Grid]:
    """The block; none where no claim is tested.

    Args:
        judged: the claims, each with its pairs.
        alpha: of the intervals.
    """
    if not judged:
        return []
    heads = ["\nclaim and pair", "\nmetric", "\nmeasured", "published\nΔ", f"Δ\n[{100 * (1 - alpha):g}% family]"]
    heads += ["\nn", "\np Holm", "\nMDE", "\nverdict"]
    left = ("\nclaim and pair", "\nmetric", "\nverdict")
    return [
        Grid(
            title="Published claims",
            columns=[Column(header=head, left=head in left) for head in heads],
            rows=[_cells(one, pair) for one in judged for pair in one["pairs"]],
        )
    ]


def claim_lines(judged: Sequence[Said]) -> Iterator[list[str]]:
    """What is to be said of each claim below the table, in pieces between which one may break."""
    if judged:
        yield [
            f"claims: verdicts are about {judged[0]['scale']}, not about the published scale",
            "Δ: the first less the second",
        ]
    for one in judged:
        yield [
            f"{one['claim']}: {one['verdict'] or 'no verdict'}",
            f"{measured_by(one)}; {one['seeds']} seeds"
            + ("" if one["mde"] is None else f", MDE {two(one['mde'])}"),
            f"published: {one['setup']}",
            str(one["source"]),
            *([str(one["caveat"])] if one["caveat"] else []),
        ]


def measured_by(one: Said) -> str:
    """Our number that the claim is tested by, and what the study says of its standing in for the published one."""
    return str(one["metric"]) + (f", {one['note']}" if one.get("note") else "")


def pair_said(one: Said, pair: Said) -> str:
    """The two arms, and which way our number was said to be."""
    return f" {SIGNS.get(one['want'], '~')} ".join(pair["arms"])


def published_said(one: Said, pair: Said) -> str:
    """The published difference, with its unit where it is no loss in nats, and its mark."""
    if pair["published"] is None:
        return NONE
    unit = one["published_unit"] or ""
    mark = "†" if one["told"] else ""
    return number_said(pair["published"]) + ("" if unit == "nats" else f" {unit}").rstrip() + mark


def number_said(value: float) -> str:
    """A difference, to three decimals or three digits."""
    if 0.001 <= abs(value) < 100 or value == 0:
        return f"{value:+.3f}"
    return f"{'-' if value < 0 else '+'}{si(abs(value))}"


def difference_said(pair: Said) -> str:
    """The measured difference with its interval."""
    if pair["mean"] is None:
        return NONE
    said = number_said(pair["mean"])
    return said + (" [{}, {}]".format(*map(number_said, pair["interval"])) if pair["interval"] else "")


def _cells(one: Said, pair: Said) -> list[str]:
    p, mde = pair["p"], pair["mde"]
    return [
        f"{one['claim']}: {pair_said(one, pair)}",
        str(one["metric"]),
        " / ".join(pair["levels"]),
        published_said(one, pair),
        difference_said(pair),
        str(pair["n"]),
        NONE if p is None else f"{p:.3f}" if p >= 0.001 else "<0.001",
        NONE if mde is None else si(mde),
        pair["verdict"] or NONE,
    ]
