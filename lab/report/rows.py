"""From runs to rows: one row a variant, its seeds folded.

Losses are averaged over finished (``done``) seeds only. A diverged seed has no final loss (it counts as +inf)
and is never averaged away silently: the row says ``k of n diverged``, n being the seeds that finished or
diverged, since a crash tells nothing about divergence.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.errors import one_line
from lab.report.variants import Record, Variant, config_of, variants
from lab.stats.spikes import LOCAL

STATUSES = ("done", "diverged", "failed", "running", "partial")
"""What can have become of a run; of two runs of one seed the earlier named wins."""

ENDED = ("done", "diverged")
"""The statuses of runs that tell something about their variant: their spikes are summed."""

Number = int | float


@dataclass(frozen=True, kw_only=True)
class Row:
    """One variant. Losses in nats per token; None where a number is not known."""

    variant: str
    settings: dict[str, Any]
    """The settings that tell this variant from the others."""
    n: int
    """Finished seeds, over which losses are averaged."""
    asked: int
    """Seeds there are runs of, whatever became of them."""
    params: int | None
    """All parameters."""
    params_non_embedding: int | None
    params_difference: float | None
    """Of all parameters, in percent of the first row's."""
    params_non_embedding_difference: float | None
    flops_per_token: float | None
    tokens_per_s: float | None
    """Median over seeds."""
    tokens: Number | None
    """Trained on by one run, median over seeds."""
    epochs: float | None
    early_loss: float | None
    """Held-out loss after an eighth of the steps, mean over seeds."""
    early_loss_sd: float | None
    """As ``final_loss_sd``."""
    final_loss: float | None
    """Held-out loss after the last step, mean over seeds."""
    final_loss_sd: float | None
    """Standard deviation over seeds with divisor n - 1 (ddof 1), not a standard error; None below two seeds."""
    bits_per_byte: float | None
    spikes_loss: int | None
    """Summed over finished and diverged seeds; None when no step was judged."""
    spikes_loss_counted: int
    """Judged steps, summed alike."""
    spikes_grad_norm: int | None
    spikes_grad_norm_counted: int
    shifts: int
    """Level shifts of both series, summed alike."""
    spikes_definition: str
    clipped_share: float | None
    """Share of steps whose gradient was clipped, mean over seeds."""
    done: int
    failed: int
    diverged: int
    partial: int
    running: int
    flags: list[str]
    """What must be known beside the numbers of this row."""
    seeds: list[int]
    runs: list[str]
    """Run ids, in the order of ``seeds``."""
    statuses: list[str]
    finals: list[float | None]
    """Final losses, in the order of ``seeds``."""


def rows(records: Iterable[Record], *, in_order: bool = False) -> list[Row]:
    """Fold runs into rows, in the natural order of the labels or in that of the runs, never by loss."""
    return rows_of(variants(records, in_order=in_order))


def rows_of(variants: Iterable[Variant]) -> list[Row]:
    """A row of each variant, in the order given; the first is what sizes are compared with."""
    found: list[Row] = []
    for variant in variants:
        found.append(_row(variant, found[0] if found else None))
    return found


def number(value: object) -> Number | None:
    """A finite number, or None for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    return None


def within(record: Record, *keys: str) -> Number | None:
    """A finite number inside nested sections of a record, or None."""
    part: Any = record
    for key in keys:
        if not isinstance(part, dict):  # as JSON has it
            return None
        part = part.get(key)
    return number(part)


def median(records: Iterable[Record], *keys: str) -> float | None:
    """Median over the runs that have this number."""
    found = _numbers(records, *keys)
    return statistics.median(found) if found else None


def sd(values: Sequence[float]) -> float | None:
    """Standard deviation of a sample, None for fewer than two; ten times as fast as ``statistics.stdev``."""
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def reason(record: Record) -> str:
    """Why a run ended as it did, in one line."""
    return one_line(record.get("reason") or "no reason given")


def one_a_seed(records: Iterable[Record]) -> list[Record]:
    """Of several runs of one seed the one that came furthest, so that no seed is averaged twice."""
    best: dict[object, Record] = {}
    for record in records:
        key = (config_of(record).get("seed"), config_of(record).get("study_seed"))
        if key not in best or _rank(record) < _rank(best[key]):
            best[key] = record
    return list(best.values())


def _rank(record: Record) -> int:
    status = record.get("status")
    return STATUSES.index(status) if status in STATUSES else len(STATUSES)


def _row(variant: Variant, first: Row | None) -> Row:
    runs = one_a_seed(variant.records)
    status = [str(run.get("status")) for run in runs]
    done = [run for run in runs if run.get("status") == "done"]
    ended = [run for run in runs if run.get("status") in ENDED]
    finals, earlies = _numbers(done, "final_loss"), _numbers(done, "early_loss")
    params = _count(runs, "parameters", "total")
    inner = _count(runs, "parameters", "non_embedding")
    loss, norm = _spikes(ended, "loss"), _spikes(ended, "grad_norm")
    return Row(
        variant=variant.label,
        settings=variant.settings,
        n=len(done),
        asked=len(runs),
        params=params,
        params_non_embedding=inner,
        params_difference=_percent(params, first.params if first else params),
        params_non_embedding_difference=_percent(inner, first.params_non_embedding if first else inner),
        flops_per_token=median(runs, "flops_per_token"),
        tokens_per_s=median(done or runs, "tokens_per_s"),
        tokens=median(done or runs, "tokens"),
        epochs=median(done or runs, "epochs"),
        early_loss=_mean(earlies),
        early_loss_sd=sd(earlies),
        final_loss=_mean(finals),
        final_loss_sd=sd(finals),
        bits_per_byte=_mean(_numbers(done, "bits_per_byte")),
        spikes_loss=loss["spikes"] if loss["counted"] else None,
        spikes_loss_counted=loss["counted"],
        spikes_grad_norm=norm["spikes"] if norm["counted"] else None,
        spikes_grad_norm_counted=norm["counted"],
        shifts=loss["shifts"] + norm["shifts"],
        spikes_definition=LOCAL,
        clipped_share=_mean(_numbers(done, "clipped_share")),
        **{name: status.count(name) for name in STATUSES},
        flags=_flags(status, loss["shifts"], norm["shifts"]),
        seeds=[int(config_of(run).get("seed") or 0) for run in runs],
        runs=[str(run.get("id")) for run in runs],
        statuses=status,
        finals=[number(run.get("final_loss")) if run.get("status") == "done" else None for run in runs],
    )


def _flags(status: list[str], loss_shifts: int, norm_shifts: int) -> list[str]:
    diverged = status.count("diverged")
    flags = [f"{diverged} of {diverged + status.count('done')} diverged"] if diverged else []
    for series, shifts in (("loss", loss_shifts), ("grad norm", norm_shifts)):
        if shifts:
            flags.append(f"{shifts} level shift{'s' if shifts > 1 else ''} of {series}")
    return flags


def _numbers(records: Iterable[Record], *keys: str) -> list[Number]:
    found = (within(record, *keys) for record in records)
    return [value for value in found if value is not None]


def _mean(values: list[Number]) -> float | None:
    return statistics.fmean(values) if values else None


def _count(records: Iterable[Record], *keys: str) -> int | None:
    found = _numbers(records, *keys)
    return int(found[0]) if found else None


def _percent(value: int | None, base: int | None) -> float | None:
    return 100.0 * (value / base - 1.0) if value is not None and base else None


def _spikes(records: list[Record], series: str) -> dict[str, int]:
    found = dict.fromkeys(("spikes", "counted", "shifts"), 0)
    for record in records:
        part: Any = record
        for key in ("spikes", LOCAL, series):
            part = part.get(key) if isinstance(part, dict) else None
        for key in found if isinstance(part, dict) else ():
            found[key] += int(number(part.get(key)) or 0)
    return found
