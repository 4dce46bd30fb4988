"""Published claims: what a paper found for two choices of one group, and what our own runs say of it.

``conf/claims.yaml`` lists them; docs/studies.md describes its keys. A verdict is about our scale alone, and whoever
prints one prints both scales beside it, so that nobody reads a laptop's result as a refutation of a paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import yaml

from lab.component import check, check_number
from lab.decode import section
from lab.errors import ConfigError, did_you_mean
from lab.paths import conf_dir


class Compare(StrEnum):
    """What of a published figure is tested."""

    sign = "sign"
    size = "size"


class Read(StrEnum):
    """Where a figure was read: in the paper's own text, or told by somebody else."""

    text = "text"
    told = "told"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What was published about several choices of one group."""

    id: str
    source: str
    """Authors, year, arXiv number, and the table, figure or section."""
    statement: str
    """The finding, in a sentence."""
    scale: str
    """Of the published runs: size, kind of model, data."""
    group: str
    """The configuration group whose choices are compared."""
    metric: str
    """The number of ``result.json`` that comes nearest to what was published."""
    values: dict[str, float]
    """What was published, by choice; nats per token."""
    sd: float | None
    """Standard deviation over the published runs; None: not given."""
    n: int
    """Runs behind each value."""
    pairs: list[list[str]]
    """The better choice, then the worse."""
    compare: Compare
    """``size`` only where unit, metric and data agree."""
    read: Read
    caveat: str | None = None

    def __post_init__(self) -> None:
        check_number("n", self.n, least=1)
        for pair in self.pairs:
            check(len(pair) == 2, "pairs", pair, "must be the better choice and the worse")
            for name in pair:
                near = did_you_mean(name, self.values)
                check(name in self.values, "pairs", name, f"must be one of values: {', '.join(self.values)}{near}")
        known = self.compare is Compare.sign or self.sd is not None
        check(known, "compare", "size", "needs sd, to say how near is near")

    def about(self, variant: Mapping[str, str], baseline: Mapping[str, str]) -> int | None:
        """-1 where the variant is said to be better than the baseline, 1 worse; None where nothing is said.

        Args:
            variant: its choice in each group.
            baseline: likewise. The two have to differ in this claim's group and in no other.
        """
        if [group for group in variant if variant[group] != baseline.get(group)] != [self.group]:
            return None
        pair = [variant[self.group], baseline[self.group]]
        return -1 if pair in self.pairs else 1 if pair[::-1] in self.pairs else None

    def delta(self, variant: str, baseline: str) -> float:
        """The published difference of two choices, variant minus baseline."""
        return self.values[variant] - self.values[baseline]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What our runs came to for one pair; differences are variant minus baseline."""

    complete: bool
    """Whether every run of both has a result."""
    baseline_diverged: int
    diverged: int
    """Runs of the variant that diverged."""
    p: float | None
    """Two-sided, corrected by Holm; None where there was nothing to test, or fewer than three seeds."""
    mean: float | None
    interval: tuple[float, float] | None
    """That of the whole family."""
    equivalent: float | None
    """The margin within which the two were shown to be equal; None where they were not."""
    mde: float | None
    """The smallest effect that these runs can see."""
    alpha: float = 0.05


def judge(claim: Claim, measured: Measured, *, side: int, published: float) -> str:
    """The verdict of a claim for one pair: the first rule that fits.

    That two are equal within a margin speaks against a claim only where the published difference is no smaller.

    Args:
        claim: what was said.
        measured: what our runs came to.
        side: -1 where the variant was said to be the better one, 1 where the worse.
        published: the published difference, variant minus baseline.
    """
    if not measured.complete:
        return "incomplete"
    if measured.baseline_diverged:
        return "baseline unstable, lower the LR"
    if measured.diverged:
        return "diverged here"
    if measured.p is None or measured.mean is None or measured.interval is None:
        return "too few seeds"
    low, high = measured.interval
    if measured.p < measured.alpha:
        if measured.mean * side < 0:
            return "not replicated: opposite sign"
        if claim.compare is Compare.size:
            half = 2 * _standard_error(claim)
            if published - half <= high and published + half >= low:
                return "replicated (size)"
        return "replicated (sign)"
    if measured.equivalent is not None and measured.equivalent <= abs(published):
        return f"not replicated: no effect >= {measured.equivalent:.2g} here"
    if claim.compare is Compare.size and not low <= published <= high:
        return "not replicated at that size"
    return f"inconclusive at this scale{'' if measured.mde is None else f' (MDE {measured.mde:.2g})'}"


def _standard_error(claim: Claim) -> float:
    """Of a published difference of two means."""
    assert claim.sd is not None
    return float(claim.sd * (2 / claim.n) ** 0.5)


def decode(values: Any, where: str) -> tuple[Claim, ...]:
    """Claims of a list of sections.

    Raises:
        ConfigError: names the claim, the key and the value.
    """
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ConfigError(f"{where} must be a list of claims")
    claims = tuple(_claim(value, f"{where}: {_name(value, number)}") for number, value in enumerate(values))
    ids = [claim.id for claim in claims]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice:
        raise ConfigError(f"{where}: {twice} is there twice")
    return claims


def _name(value: Any, number: int) -> str:
    name = value.get("id") if isinstance(value, Mapping) else None
    return str(name) if name else f"claim {number + 1}"


def _claim(value: Any, path: str) -> Claim:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path} must be a section with keys of its own")
    return section(path, Claim, value)


@cache
def claims() -> tuple[Claim, ...]:
    """The shipped claims.

    Raises:
        ConfigError: the file contradicts itself.
    """
    file = conf_dir() / "claims.yaml"
    return decode(yaml.safe_load(file.read_text(encoding="utf-8")), file.name)
