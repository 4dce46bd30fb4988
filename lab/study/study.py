"""A study: what is compared with what, at which sizes and seeds."""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.errors import ConfigError, did_you_mean
from lab.study.manifest import digest
from lab.study.published import Published
from lab.study.sections import NO_VERDICTS, Gate, Lr, Plain, Seeds, Stats, Tier, Variant
from lab.study.words import Settings

LR_KEY = "optim.lr"
"""The setting that a grid of learning rates sets."""

RESERVED = {
    "seed": "study.seeds says which are run",
    "match": "study.match says it",
    "study": "a study holds no other",
    "tier": "it is given on the command line",
    "accept_mde": "it is given on the command line",
    "on_error": "it is given on the command line",
    "hydra": "it stands at the top level of the file",
}
"""First parts of keys that nothing in a study sets, and why."""


SILENT = ("measures", "max_epochs", "published")
"""Keys that are no part of a study's hash where they say nothing."""


@dataclass(frozen=True, kw_only=True)
class Study(Plain):
    """Made by ``lab.study.file``; ``lab.study.design`` makes its arms."""

    name: str
    """The stem of its file."""
    set: Settings
    """Settings of all arms."""
    baseline: Variant
    """What the others are compared with; where axes are given it is their first values."""
    variants: tuple[Variant, ...]
    """The others; empty where axes are given."""
    axes: dict[str, list[str]]
    """Keys with the values that a grid or zip goes through; empty where variants are given."""
    contrasts: tuple[str, ...] | None
    """Sums and differences of arms; None: those of the design."""
    seeds: Seeds
    """Which are run."""
    lr: Lr
    """How the learning rate is found."""
    stats: Stats
    """How verdicts are reached."""
    published: tuple[Published, ...]
    """Claims it tests."""
    gate: Gate | None
    """What the study has to be able to see; None: whatever it can is enough."""
    tiers: dict[str, Tier]
    """Its sizes; empty once one is picked."""
    tier: str | None = None
    """The size that was picked; None: as the study stands."""
    verdicts: bool = True
    """Whether results are judged, and the baseline's noise is gated."""
    left_out: tuple[Variant, ...] = ()
    """Variants that the tier has not: keys of ``set`` that only they have use for are no mistake."""

    def at(self, tier: str | None) -> "Study":
        """The study at one of its sizes; None: as it stands.

        Raises:
            ConfigError: there is no such size, or what it sets contradicts the rest.
        """
        if tier is None:
            return dataclasses.replace(self, tiers={})
        if tier not in self.tiers:
            menu = f"one of {', '.join(self.tiers)}" if self.tiers else f"there: study {self.name} has no tiers"
            raise ConfigError(f"tier '{tier}' is not {menu}{did_you_mean(tier, self.tiers)}")
        picked = self.tiers[tier]
        verdicts = tier not in NO_VERDICTS if picked.verdicts is None else picked.verdicts
        try:
            seeds = self.seeds.first(picked.report, picked.tune)
            lr = self.lr if picked.lr is None else dataclasses.replace(self.lr, mode=picked.lr)
        except ConfigError as error:
            raise ConfigError(f"study.tiers.{tier}: {error}") from error
        return dataclasses.replace(
            self,
            set=self.set | picked.set,
            variants=self._kept(picked.arms, here=True),
            left_out=self._kept(picked.arms, here=False),
            contrasts=self.contrasts if picked.arms is None else self._contrasts(picked.arms),
            seeds=seeds,
            lr=lr,
            gate=self.gate if verdicts else None,
            tier=tier,
            tiers={},
            verdicts=verdicts,
        )

    def _kept(self, names: Sequence[str] | None, *, here: bool) -> tuple[Variant, ...]:
        return tuple(v for v in self.variants if (names is None or v.name in names) == here)

    def _contrasts(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """Those that are written out, without those of arms that are left out."""
        if self.contrasts is None:
            return None
        gone = {variant.name for variant in self.variants} - {*names}
        return tuple(
            written
            for written in self.contrasts
            if not any({arm, *arm.split("+")} & gone for arm in re.split(r"\s+[+-]\s+", written.strip()))
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: all that is asked."""
        whole = {key: value for key, value in dataclasses.asdict(self).items() if key != "left_out"}
        for arm in (whole["baseline"], *whole["variants"]):
            if arm["start"] is None:  # was no key once
                del arm["start"]
        return whole

    def hash(self, shared: Sequence[str] = ()) -> str:
        """Eight hex digits of what is asked: the study at its tier, and the words given on the command line."""
        asked = {key: value for key, value in self.as_dict().items() if value or key not in SILENT}
        return digest({"study": asked, "shared": sorted(shared)})
