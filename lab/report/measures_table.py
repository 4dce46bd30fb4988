"""What was measured of the runs of each variant beside their losses: a block a measure, a row a variant."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from lab.report.grid import NONE, Column, Grid
from lab.report.rows import number, one_a_seed, within
from lab.report.variants import Record, Variant, config_of
from lab.stats.digits import two

READ = "measured of finished runs: mean over seeds ± sd (ddof 1)"

PROBES = (
    "probes: share of right answers, mean over seeds [95% by t] · guessing scores 1/2 in agreement, next_paragraph "
    "and swapped_words, 1/4 in last_word, 1/8 in recall, 1/64 in induction, more in windows too short for that many"
)


def measures(variants: Sequence[Variant]) -> list[Grid]:
    """A block for each measure; none where nothing was measured."""
    return [_block(name, keys, variants) for name, keys in _names(variants).items()]


def measures_notes(variants: Sequence[Variant]) -> Iterator[str]:
    """How to read the blocks."""
    names = _names(variants)
    if names:
        yield READ
    if "probes" in names:
        yield PROBES


def measures_data(variants: Sequence[Variant]) -> dict[str, Any]:
    """Every number by variant and seed."""
    rows = [
        {"variant": variant.label, "seed": config_of(run).get("seed"), **{n: run["measures"].get(n) for n in names}}
        for names in (_names(variants),)
        for variant in variants
        for run in _done(variant)
        if run.get("measures")
    ]
    return {"measures": rows} if rows else {}


def _names(variants: Sequence[Variant]) -> dict[str, list[str]]:
    """The numbers of each measure, in the order in which they stand."""
    found: dict[str, dict[str, None]] = {}
    for variant in variants:
        for run in _done(variant):
            for name, part in (run.get("measures") or {}).items():
                found.setdefault(name, {}).update(
                    {key: None for key, value in part.items() if number(value) is not None}
                )
    return {name: list(keys) for name, keys in found.items() if keys}


def _block(name: str, keys: Sequence[str], variants: Sequence[Variant]) -> Grid:
    return Grid(
        title=f"Measured: {name.replace('_', ' ')}",
        columns=[
            Column(header="variant", left=True),
            *(Column(header=key.replace("_", "\n", 1).replace("_", " ")) for key in keys),
        ],
        rows=[
            [variant.label, *(_cell(_values(variant, name, key), interval=name == "probes") for key in keys)]
            for variant in variants
        ],
    )


def _done(variant: Variant) -> list[Record]:
    return [run for run in one_a_seed(variant.records) if run.get("status") == "done"]


def _values(variant: Variant, name: str, key: str) -> list[float]:
    return [float(value) for run in _done(variant) if (value := within(run, "measures", name, key)) is not None]


def _cell(values: Sequence[float], *, interval: bool) -> str:
    if not values:
        return NONE
    mean = statistics.fmean(values)
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    if not interval:
        return f"{mean:.4g}" + (f" ± {two(sd)}" if sd else "")
    if len(values) < 3:
        return f"{mean:.3f}"
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1)) * sd / len(values) ** 0.5
    return f"{mean:.3f} [{mean - half:.3f}, {mean + half:.3f}]"
