"""The variants of a table with their baseline: rows, effects, notes, and the numbers behind them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lab.errors import ConfigError
from lab.report.claims_grid import claim_lines
from lab.report.combined import Combination, Combined
from lab.report.effects import Effects, Stats, effects
from lab.report.grid import strict
from lab.report.notes import footer, reasons, warnings
from lab.report.rows import Row, number, one_a_seed, rows_of, within
from lab.report.variants import Record, Variant, config_of, hash_of, show
from lab.stats.contrast import Contrast

EXPLORATORY = "exploratory: no study declared the family"
"""Said of a family that is what happens to be in the table."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a table is about."""

    variants: tuple[Variant, ...]
    """The baseline first, the others in their order."""
    rows: tuple[Row, ...]
    effects: Effects | None
    """None where there is nothing to compare with."""
    lines: tuple[str, ...] = ()
    """What the family is."""
    fresh: frozenset[str] | None = None
    """Ids of the runs on seeds that chose no learning rate; None: no study chose one."""
    published: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Cells beside the effects by the row's label, by header: published figures and what is said of them."""
    claims: tuple[Mapping[str, Any], ...] = ()
    """The same as numbers and words, for JSON."""
    judged: tuple[Mapping[str, Any], ...] = ()
    """The claims that a study names itself, each with its pairs, as ``lab.report.claims_grid`` takes them."""

    @property
    def records(self) -> list[Record]:
        """All runs."""
        return [record for variant in self.variants for record in variant.records]

    def notes(self) -> list[list[str]]:
        """Lines below the table, in pieces between which one may break."""
        found = footer(self.records, self.rows)
        if self.effects is None:
            return found
        lines = [line.split("; ") for line in (*self.effects.footer, *self.lines)]
        return [*found, *lines, *claim_lines(self.judged)]

    def data(self) -> dict[str, Any]:
        """All numbers, finite or null."""
        found = {
            "rows": [asdict(row) for row in self.rows],
            "effects": None if self.effects is None else _effects(self.effects),
            "claims": list(self.claims),
            "published": list(self.judged),
            "reasons": reasons(self.records),
            "warnings": warnings(self.records, self.rows),
        }
        made: dict[str, Any] = strict(found)
        return made

    def per_seed(self) -> list[dict[str, Any]]:
        """One flat record a variant and seed."""
        return [strict(line) for line in self._per_seed()]

    def _per_seed(self) -> Iterator[dict[str, Any]]:
        found = {row.label: row.differences for row in self.effects.rows} if self.effects else {}
        for variant in self.variants:
            for record in one_a_seed(variant.records):
                config = config_of(record)
                yield {
                    "variant": variant.label,
                    "seed": config.get("seed"),
                    "study_seed": config.get("study_seed"),
                    "run": record.get("id"),
                    "status": record.get("status"),
                    **{key: number(record.get(key)) for key in ("early_loss", "final_loss", "bits_per_byte")},
                    "difference": found.get(variant.label, {}).get(str(config.get("seed"))),
                    "params": within(record, "parameters", "total"),
                    "params_non_embedding": within(record, "parameters", "non_embedding"),
                    **{key: number(record.get(key)) for key in ("flops_per_token", "tokens", "tokens_per_s")},
                    "lr": within(config, "optim", "lr"),
                }


def compare(
    variants: Sequence[Variant],
    *,
    baseline: Variant | None = None,
    metric: str = "final_loss",
    stats: Stats | None = None,
    m: int | None = None,
    missing: Sequence[str] = (),
    lines: Sequence[str] = (EXPLORATORY,),
    declared: Collection[str] | None = None,
    combinations: Sequence[Combination] = (),
) -> Comparison:
    """Compare variants with one of them, by default the first.

    Where rows have several tokenizers, losses per token do not compare; then ``bits_per_byte`` is the metric.

    Args:
        variants: at least one.
        baseline: one of them.
        metric: as ``effects`` takes it, and so the rest.
        stats: how verdicts are reached.
        m: contrasts in the family.
        missing: what is known to be missing.
        lines: what the family is, to stand below the table.
        declared: labels of the variants whose difference from the baseline is in the family.
        combinations: the other contrasts of the family.
    """
    base = variants[0] if baseline is None else baseline
    ordered = (base, *(variant for variant in variants if variant is not base))
    records = [record for variant in ordered for record in variant.records]
    if len({h for record in records if (h := hash_of(record, "tokenizer"))}) > 1:
        metric = "bits_per_byte"
    found = None
    if len(ordered) > 1:
        more: dict[str, Any] = {"declared": declared, "combinations": combinations}
        found = effects(ordered, base, metric=metric, stats=stats, m=m, missing=missing, **more)
    return Comparison(variants=ordered, rows=tuple(rows_of(ordered)), effects=found, lines=tuple(lines))


def labelled(variants: Sequence[Variant], keys: Sequence[str]) -> list[Variant]:
    """The variants called by some settings alone; where several would be called alike they keep their labels.

    Raises:
        ConfigError: no run has such a setting.
    """
    for key in keys:
        if all(setting(record, key) is None for variant in variants for record in variant.records):
            raise ConfigError(f"--by {key}: no run has this setting")
    names = [
        " ".join(f"{key}={setting(variant.records[0], key)}" for key in keys) if variant.records else variant.label
        for variant in variants
    ]
    return [
        Variant(name if names.count(name) == 1 else variant.label, variant.settings, variant.records)
        for name, variant in zip(names, variants, strict=True)
    ]


def setting(record: Record, key: str) -> str | None:
    """A setting by its dotted key, as one would write it; a component by its name."""
    part: Any = config_of(record)
    for name in key.split("."):
        if not isinstance(part, Mapping) or name not in part:
            return None
        part = part[name]
    if isinstance(part, Mapping):
        return str(part["name"]) if isinstance(part.get("name"), str) else show(sorted(map(str, part)))
    return show(part)


def pick(variants: Sequence[Variant], words: str) -> Variant:
    """The variant that was named by its label, or by words of it.

    Raises:
        ConfigError: none or several are called so.
    """
    exact = [variant for variant in variants if variant.label == words]
    found = exact or [variant for variant in variants if {*words.split()} <= {*variant.label.split()}]
    if len(found) == 1:
        return found[0]
    labels = "; ".join(variant.label for variant in (found or variants)[:6])
    raise ConfigError(f"--baseline '{words}' is {'several' if found else 'none'} of the rows: {labels}")


def _effects(found: Effects) -> dict[str, Any]:
    return {
        "metric": found.metric,
        "baseline": found.baseline,
        "family": found.m,
        "alpha": found.stats.alpha,
        "power": found.stats.power,
        "margin": found.margin,
        "floor": None if found.floor is None else asdict(found.floor),
        "pairing_correlation": found.rho,
        "mde": found.mde,
        "missing": list(found.missing),
        "baseline_losses": found.baseline_losses,
        "rows": [
            {
                "variant": row.label,
                "n": row.n,
                "diverged": row.diverged,
                "ended": row.ended,
                "paired_by_seed": row.is_paired,
                "losses": row.losses,
                "differences": row.differences,
                "test": _contrast(row.contrast),
                "p_holm": row.p,
                "paired": _contrast(row.paired(m=found.m, alpha=found.stats.alpha)),
                "welch": _contrast(row.welch(m=found.m, alpha=found.stats.alpha)),
                "equivalence": None if row.equivalence is None else asdict(row.equivalence),
                "mde": row.mde,
                "wins": row.wins,
                "pairs": row.pairs,
                "params_difference": row.params,
                "flops_difference": row.flops,
                "verdict": row.verdict,
            }
            for row in found.rows
        ],
        "contrasts": [_combined(one) for one in found.combined],
    }


def _combined(one: Combined) -> dict[str, Any]:
    return {
        "contrast": one.combination.name,
        "plus": list(one.combination.plus),
        "minus": list(one.combination.minus),
        "interaction": one.is_interaction,
        "n": one.n,
        "diverged": one.diverged,
        "ended": one.ended,
        "paired_by_seed": one.is_paired,
        "differences": one.differences,
        "test": _contrast(one.contrast),
        "p_holm": one.p,
        "equivalence": None if one.equivalence is None else asdict(one.equivalence),
        "mde": one.mde,
        "verdict": one.verdict,
    }


def _contrast(found: Contrast | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)
