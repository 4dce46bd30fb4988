"""How stable the runs of each variant were: divergence, spikes by three definitions, jumps, gradient norms.

Counts are pooled over the seeds that finished or diverged, and resampled over them. A definition that needs more
steps than the runs have says ``n/a`` with the steps; below 100 judged steps there is a count and no percentage.
"""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lab.report.grid import NONE, Column, Grid
from lab.report.pairs import are_paired, side_of
from lab.report.rows import ENDED, number, one_a_seed, within
from lab.report.variants import Record, Variant, config_of, show
from lab.stats.contrast import Contrast, paired
from lab.stats.proportion import proportion
from lab.stats.resample import SEEDS_ENOUGH, resampled
from lab.stats.rolling_spikes import OLMO2, OLMO_CORE
from lab.stats.spikes import LOCAL

COUNTED_LEAST = 100
"""Judged steps below which a percentage says nothing."""

SERIES = ((LOCAL, "loss"), (LOCAL, "grad_norm"), (OLMO2, "loss"), (OLMO_CORE, "combined"))
"""The spike columns: definition and series."""

HEADERS = (
    "\nvariant",
    "\nLR",
    "diverged\nk/n [95%]",
    "first bad\nstep",
    "spikes loss\nlocal",
    "spikes grad norm\nlocal",
    "spikes loss\nolmo2",
    "spikes both\nolmo-core",
    "largest jump,\nnats",
    "clipped\nsteps",
    "grad norm\np99/median",
    "max attention\nlogit",
    "growth\nexponent",
    "Δ √spikes\nvs baseline",
)


RARE = ("first bad\nstep", "max attention\nlogit", "growth\nexponent")
"""Columns that are left out where no row has them: nothing diverged, no layer was tracked."""

GROUPS = {header: "spikes" for header in HEADERS if header.startswith("spikes")}
"""Columns that stay together in a narrow terminal."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Spikes of one definition in one series, over seeds."""

    spikes: int
    counted: int
    seeds: int
    has_score: bool
    """Whether the runs are long enough for the definition."""
    interval: tuple[float, float] | None
    """Of the percentage, at 95 %, by resampling seeds."""

    @property
    def percent(self) -> float | None:
        """None where it would say nothing."""
        ok = self.has_score and self.counted >= COUNTED_LEAST
        return 100.0 * self.spikes / self.counted if ok else None


def stability(variants: Sequence[Variant], *, baseline: int = 0) -> Grid:
    """Table B: one row a variant, in the order given.

    Args:
        variants: at least one.
        baseline: place of the one that spikes are compared with.
    """
    rows, data, seeds = [], [], []
    for variant in variants:
        ended = [run for run in one_a_seed(variant.records) if run.get("status") in ENDED]
        found = None if variant is variants[baseline] else _difference(variant, variants[baseline])
        numbers = _numbers(ended)
        rows.append(_cells(variant.label, numbers, found))
        data.append({"variant": variant.label, **numbers, "delta": None if found is None else _finite(found)})
        seeds += [{"variant": variant.label, **_of_seed(run)} for run in ended]
    known = [n for n, header in enumerate(HEADERS) if header not in RARE or any(row[n] != NONE for row in rows)]
    return Grid(
        title="Stability",
        columns=[Column(header=HEADERS[n], left=n == 0, group=GROUPS.get(HEADERS[n], "")) for n in known],
        rows=[[row[n] for n in known] for row in rows],
        notes=_notes(data),
        data={"rows": data},
        per_seed=seeds,
    )


def pool(runs: Sequence[Record], definition: str, series: str) -> Pool | None:
    """The spikes of runs, together; None where no run has them, as results of an older lab."""
    counts = [
        (int(spikes), int(counted), within(run, "spikes", definition, series, "score") is not None)
        for run in runs
        if (spikes := within(run, "spikes", definition, series, "spikes")) is not None
        and (counted := within(run, "spikes", definition, series, "counted")) is not None
    ]
    if not counts:
        return None
    # What is too short for a definition, as is a run that diverged early, has no share to be pooled.
    scored = [(spikes, counted) for spikes, counted, ok in counts if ok] or [(s, c) for s, c, _ in counts]
    has_score = any(ok for *_, ok in counts)

    def share(draw: Any) -> float:
        n = sum(scored[i][1] for i in draw)
        return 100.0 * sum(scored[i][0] for i in draw) / n if n else math.nan

    return Pool(
        spikes=sum(spikes for spikes, _ in scored),
        counted=sum(counted for _, counted in scored),
        seeds=len(scored),
        has_score=has_score,
        # Of no spike at all every resample has none: an interval without width would say too much.
        interval=resampled(len(scored), share) if has_score and any(spikes for spikes, _ in scored) else None,
    )


def _numbers(ended: Sequence[Record]) -> dict[str, Any]:
    """What a row says, as numbers."""
    diverged = [run for run in ended if run.get("status") == "diverged"]
    found = proportion(len(diverged), len(ended))
    pools = {f"{definition} {series}": pool(ended, definition, series) for definition, series in SERIES}
    return {
        "lr": sorted({lr for run in ended if (lr := within(config_of(run), "optim", "lr")) is not None}),
        "diverged": len(diverged),
        "ended": len(ended),
        "diverged_interval": None if found is None else list(found.interval),
        "first_bad_step": _middle([step for run in diverged if (step := bad_step(run)) is not None]),
        "spikes": {
            name: None if one is None else {**asdict(one), "percent": one.percent} for name, one in pools.items()
        },
        "steps": max((int(run.get("steps_done") or 0) for run in ended), default=0),
        "largest_jump": max(_each(ended, "spikes", LOCAL, "loss", "largest"), default=None),
        "clipped_share": _mean(_each(ended, "clipped_share")),
        "grad_norm_tail": _middle(_each(ended, "spikes", LOCAL, "grad_norm", "tail")),
        "max_attention_logit": max(_each(ended, "layers", "max_attention_logit"), default=None),
        "growth_exponent": _mean(_each(ended, "layers", "growth_exponent")),
    }


def bad_step(run: Record) -> int | None:
    """The step at which a diverged run went bad, as ``lab.stats.divergence`` tells.

    Results that do not hold it are from before; of these it is known where a number was not finite.
    """
    known = number(run.get("bad_step"))
    if known is not None:
        return int(known)
    found = re.search(r"not finite (?:at|after) step (\d+)", str(run.get("reason")))
    return int(found[1]) if found else None


def _of_seed(run: Record) -> dict[str, Any]:
    """The flat record of one run."""
    keys = {
        f"{definition} {series} {key}": within(run, "spikes", definition, series, key)
        for definition, series in SERIES
        for key in ("spikes", "counted", "score")
    }
    return {
        "run": str(run.get("id")),
        "seed": within(config_of(run), "seed"),
        "status": str(run.get("status")),
        "bad_step": bad_step(run),
        **keys,
        "largest_jump": within(run, "spikes", LOCAL, "loss", "largest"),
        "clipped_share": number(run.get("clipped_share")),
        "grad_norm_tail": within(run, "spikes", LOCAL, "grad_norm", "tail"),
    }


def _difference(variant: Variant, baseline: Variant) -> Contrast | None:
    """Paired t on the square roots of the counts of loss spikes; None where the seeds are no pairs."""
    ours, base = side_of(variant, "final_loss").runs, side_of(baseline, "final_loss").runs
    if not are_paired(ours, base):
        return None
    both = sorted(ours.keys() & base.keys())
    return paired(*([_root(runs[seed]) for seed in both] for runs in (ours, base)))


def _root(run: Record) -> float | None:
    count = within(run, "spikes", LOCAL, "loss", "spikes")
    return None if count is None or run.get("status") not in ENDED else math.sqrt(count)


def _cells(label: str, row: Mapping[str, Any], found: Contrast | None) -> list[str]:
    low, high = row["diverged_interval"] or (0.0, 1.0)
    clipped, steps = row["clipped_share"], row["steps"]
    return [
        label,
        ", ".join(map(show, row["lr"])) or NONE,
        f"{row['diverged']}/{row['ended']} [{low:.2f}, {high:.2f}]" if row["ended"] else NONE,
        _known(row["first_bad_step"], "{:.0f}"),
        *(_spikes(one, steps) for one in row["spikes"].values()),
        _known(row["largest_jump"], "{:.3f}"),
        NONE if clipped is None else f"{100 * clipped:.1f}%",
        _known(row["grad_norm_tail"], "{:.2f}"),
        _known(row["max_attention_logit"], "{:.1f}"),
        _known(row["growth_exponent"], "{:+.2f}"),
        _change(found),
    ]


def _change(found: Contrast | None) -> str:
    """A difference of roots; without an interval where all seeds have the same, which would say too much."""
    if found is None:
        return NONE
    return f"{found.mean:+.2f}" + (" [{:+.2f}, {:+.2f}]".format(*found.interval) if found.sd else "")


def _spikes(one: Mapping[str, Any] | None, steps: int) -> str:
    if one is None:
        return NONE
    if not one["has_score"]:
        return f"n/a ({steps} steps)"
    count = f"{one['spikes']}/{one['counted']}"
    if one["percent"] is None:
        return count
    interval = "" if one["interval"] is None else " [{:.2f}, {:.2f}]".format(*one["interval"])
    return f"{one['percent']:.2f}%{interval} ({count})"


def _notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = [
        f"spikes in % of judged steps: {LOCAL} · {OLMO2} · {OLMO_CORE}, of loss or gradient norm · counts pooled "
        "over finished and diverged seeds",
        "Δ: paired t on √count of local spikes of the loss, 95%",
        "largest jump: the largest residual of the loss above its line by local · clipped: steps whose gradient "
        "was scaled down, which hides spikes; none is skipped",
    ]
    if any(row["diverged"] for row in rows):
        notes.append(
            "first bad step: median over diverged seeds · of runs whose numbers stayed finite, the first step from "
            "which the smoothed loss stays above the bound"
        )
    most = max((row["ended"] for row in rows), default=0)
    if most > 1:
        rough = f"; rough: fewer than {SEEDS_ENOUGH} seeds" if any(r["ended"] < SEEDS_ENOUGH for r in rows) else ""
        notes.append(f"intervals of spikes by resampling seeds{rough} · of divergence exact (Clopper-Pearson)")
    if all(row["max_attention_logit"] is None for row in rows):
        notes.append("largest attention logit, growth exponent: with track.layers=true")
    elif any(row["growth_exponent"] is not None for row in rows):
        notes.append("growth exponent: of the mean over 2 sequences, at the last look (OLMo 2: 50 documents)")
    return notes


def _each(runs: Sequence[Record], *keys: str) -> list[float]:
    return [float(value) for run in runs if (value := within(run, *keys)) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _middle(values: Sequence[float]) -> float | None:
    return float(statistics.median(values)) if values else None


def _known(value: float | None, form: str) -> str:
    return NONE if value is None else form.format(value)


def _finite(found: Contrast) -> dict[str, float | None]:
    low, high = found.interval
    return {"mean": found.mean, "low": low, "high": high, "p": found.p, "n": found.n}
