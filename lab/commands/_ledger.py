"""The ledger: every published claim with what stored studies say of it, computed anew each time."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from lab.errors import ConfigError, did_you_mean
from lab.paths import conf_dir
from lab.report import stored
from lab.report.stored import Stored
from lab.study.claims import SECOND_HAND, Claim, claim, topics

TIERS = ("laptop", "night", "gpu", "paper")
"""Sizes of a study, the weakest first; others count less than any of these."""

UNCOUNTED = "smoke"
"""A tier that shows that a study runs, and nothing else."""

PUBLISHED_ONLY = "published only"
NO_PAIR = "no pair"
NOT_RUN = "not run"

SEEDS = 5
"""That a verdict is counted with."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One claim."""

    topic: str
    claim: Claim
    studies: tuple[str, ...]
    """Files of studies that name it."""
    found: tuple[tuple[Stored, Mapping[str, Any]], ...]
    """Stored studies with what they say of it, the strongest first."""

    @cached_property
    def said(self) -> Mapping[str, Any]:
        """What counts: of the strongest tier; empty where there is nothing."""
        return self.found[0][1] if self.found else {}

    @property
    def status(self) -> str:
        """The verdict in a word or two, or why there is none.

        ``not run`` where a study waits, ``published only`` where none does, ``no pair`` where one names it for a
        definition or a setting, with no two things in it to set side by side.
        """
        waiting = NOT_RUN if self.claim.pairs else NO_PAIR
        return str(self.said.get("kind") or (waiting if self.studies else PUBLISHED_ONLY))

    @property
    def study(self) -> str | None:
        """Where the verdict is from, or would be."""
        return self.found[0][0].study if self.found else self.studies[0] if self.studies else None

    @property
    def tier(self) -> str | None:
        """At which it was run."""
        return self.found[0][0].tier if self.found else None

    @property
    def link(self) -> str | None:
        """The page of the study."""
        return f"docs/reproductions/{self.found[0][0].stem}.md" if self.found else None

    @property
    def counts(self) -> bool:
        """Whether there is a verdict of a tier with enough seeds."""
        return bool(self.said.get("verdict")) and self.tier in TIERS and self.said["seeds"] >= SEEDS

    @property
    def data(self) -> dict[str, Any]:
        """For JSON; null where there is none."""
        return {
            "id": self.claim.id,
            "topic": self.topic,
            "source": self.claim.source,
            "statement": self.claim.statement,
            "setup": self.claim.setup,
            "second_hand": self.claim.read in SECOND_HAND,
            "expect": str(self.claim.expect),
            "study": self.study,
            "studies": list(self.studies),
            "status": self.status,
            "verdict": self.said.get("verdict"),
            "scale": self.said.get("scale"),
            "seeds": self.said.get("seeds"),
            "mde": self.said.get("mde"),
            "tier": self.tier,
            "date": self.found[0][0].date if self.found else None,
            "hash": self.found[0][0].hash if self.found else None,
            "link": self.link,
            "metric": self.said.get("metric"),
            "note": self.said.get("note"),
            "unit": self.said.get("unit") or None,
            "published_unit": self.said.get("published_unit", self.claim.unit),
            "pairs": self._pairs(),
            "also": [
                {"study": kept.study, "tier": kept.tier, "verdict": said["verdict"]}
                for kept, said in self.found[1:]
            ],
        }

    def _pairs(self) -> list[dict[str, Any]] | None:
        """Published and measured figures by pair; the published alone where nothing was measured."""
        if self.said:
            keys = (
                "better",
                "worse",
                "arms",
                "published",
                "mean",
                "interval",
                "p",
                "n",
                "mde",
                "levels",
                "verdict",
            )
            return [
                {{"mean": "measured"}.get(key, key): pair.get(key) for key in keys} for pair in self.said["pairs"]
            ]
        values = self.claim.values() if self.claim.at else {}
        nothing = dict.fromkeys(("arms", "measured", "interval", "p", "n", "mde", "levels", "verdict"))
        return [
            {
                "better": better,
                "worse": worse,
                "published": self.claim.delta(better, worse) if values else None,
                **nothing,
            }
            for better, worse in self.claim.pairs
        ] or None


def ledger(kept: Iterable[Stored], words: Sequence[str] = ()) -> list[Entry]:
    """Every claim, or those that are named by id or topic, in the order of their files.

    Args:
        kept: the stored studies.
        words: ids and topics; empty: all.

    Raises:
        ConfigError: one of these is neither.
    """
    by_topic = topics()
    known = {name: topic for topic, names in by_topic.items() for name in names}
    for word in words:
        if word not in known and word not in by_topic:
            near = did_you_mean(word, [*by_topic, *known])
            raise ConfigError(f"'{word}' is no claim and no topic; topics are {', '.join(by_topic)}{near}")
    asked = studies_by_claim()
    told = _told(kept)
    return [
        Entry(topic=topic, claim=claim(name), studies=asked.get(name, ()), found=told.get(name, ()))
        for name, topic in known.items()
        if not words or name in words or topic in words
    ]


def _told(kept: Iterable[Stored]) -> dict[str, tuple[tuple[Stored, Mapping[str, Any]], ...]]:
    """By claim, the studies at the stronger tier first; never ordered by what they say."""
    found: dict[str, list[tuple[Stored, Mapping[str, Any]]]] = {}
    for one in kept:
        for said in one.claims:
            if one.tier != UNCOUNTED and said["verdict"]:
                found.setdefault(str(said["claim"]), []).append((one, said))
    return {name: tuple(sorted(those, key=_strength)) for name, those in found.items()}


def _strength(one: tuple[Stored, Mapping[str, Any]]) -> tuple[int, int, int, str]:
    kept, said = one
    rank = TIERS.index(kept.tier) if kept.tier in TIERS else -1
    return -rank, -len(said["pairs"]), -int(said["seeds"]), kept.stem


def studies_by_claim() -> dict[str, tuple[str, ...]]:
    """The shipped studies that name each claim."""
    found: dict[str, list[str]] = {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file in sorted((conf_dir() / "study").glob("*.yaml")):
        value = yaml.load(file.read_text(encoding="utf-8"), loader) or {}
        for one in (value.get("study") or {}).get("published") or ():
            names = found.setdefault(str(one["claim"]), [])
            if file.stem not in names:
                names.append(file.stem)
    return {name: tuple(stems) for name, stems in found.items()}


def read_all(files: Iterable[Path]) -> list[Stored]:
    """Stored studies.

    Raises:
        LabError: one cannot be read.
    """
    return [stored.read(file) for file in files]


def counted(entries: Sequence[Entry]) -> list[str]:
    """How many claims there are of each word, and how many of them carry weight: a line each."""
    counts = Counter(entry.status for entry in entries)
    last = [word for word in (NOT_RUN, NO_PAIR, PUBLISHED_ONLY) if counts[word]]
    words = [f"{n} {word}" for word, n in counts.most_common() if word not in last]
    words += [f"{counts[word]} {word}" for word in last]
    named, sure = sum(bool(entry.studies) for entry in entries), sum(entry.counts for entry in entries)
    is_or_are, has_or_have = "is" if named == 1 else "are", "has" if sure == 1 else "have"
    return [
        f"{len(entries)} claim{'s' if len(entries) != 1 else ''}: {', '.join(words)}",
        f"{named} {is_or_are} named by a study; {sure} {has_or_have} a verdict at tier laptop or above of {SEEDS} "
        "seeds or more",
    ]
