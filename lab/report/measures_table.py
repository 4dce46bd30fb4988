"""What was measured of the runs of each variant beside its loss: the mean over seeds, and their scatter."""

import statistics
from collections.abc import Sequence
from typing import Any

from lab.report.grid import NONE, Column, Grid
from lab.report.rows import number, one_a_seed, within
from lab.report.variants import Record, Variant, config_of


def measures(variants: Sequence[Variant]) -> Grid | None:
    """One row a variant, a column for each number of each measure; None where nothing was measured."""
    runs = {variant.label: _done(variant) for variant in variants}
    keys = list(dict.fromkeys(key for done in runs.values() for run in done for key in _keys(run)))
    if not keys:
        return None
    values = {
        label: {
            key: [value for run in done if (value := within(run, "measures", *key)) is not None] for key in keys
        }
        for label, done in runs.items()
    }
    return Grid(
        title="Measures",
        columns=[
            Column(header="\nvariant", left=True),
            *(Column(header=f"{name}\n{_words(key)}", group=name) for name, key in keys),
        ],
        rows=[[label, *(_cell(found[key]) for key in keys)] for label, found in values.items()],
        notes=["mean over finished seeds ± sd (ddof 1) · docs/studies.md says what each measure is"],
        data={
            "measures": [
                {"variant": label, **{".".join(key): _mean(found[key]) for key in keys}}
                for label, found in values.items()
            ]
        },
        per_seed=[
            {
                "variant": label,
                "seed": config_of(run).get("seed"),
                **{".".join(key): within(run, "measures", *key) for key in keys},
            }
            for label, done in runs.items()
            for run in done
        ],
    )


def _done(variant: Variant) -> list[Record]:
    return [run for run in one_a_seed(variant.records) if run.get("status") == "done"]


def _keys(run: Record) -> list[tuple[str, str]]:
    """Measure and name of each number, in the order in which they stand."""
    found: Any = run.get("measures") or {}
    return [(name, key) for name, part in found.items() for key, value in part.items() if number(value) is not None]


def _words(key: str) -> str:
    return key.replace("_", " ")


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _cell(values: Sequence[float]) -> str:
    if not values:
        return NONE
    mean = statistics.fmean(values)
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{mean:.4g}" + (f" ± {sd:.2g}" if sd else "")
