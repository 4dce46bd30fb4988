"""How the final loss of each variant depends on the learning rate.

Variants that are equal in everything but ``optim.lr`` are one row.
"""

import json
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lab.report.grid import NONE, Column, Grid, strict
from lab.report.notes import ranges
from lab.report.pairs import Seed, side_of
from lab.report.rows import number, sd, within
from lab.report.variants import Record, Variant, config_of, in_words, show
from lab.stats.contrast import Floats
from lab.stats.lr_sensitivity import TOLERANCE, LrCurve, difference, lr_curve
from lab.stats.resample import SEEDS_ENOUGH

LR = "optim.lr"
"""The key that the variants of one row differ in."""


NOT_KNOWN = "n/a"
"""Of a loss that no fresh seeds have."""

Losses = dict[float, dict[Seed, float | None]]
"""Final losses by rate and seed; infinite where diverged."""


@dataclass(frozen=True)
class _Arm:
    label: str
    by_lr: Losses
    """Of the runs that the curve is made of."""
    fresh: Losses
    """Of those on seeds that chose no rate."""
    loss_0: float | None
    """Loss at initialization, mean over runs."""
    measured: bool
    """Whether it is the first loss of the runs, and not that of a guess."""

    @property
    def seeds(self) -> list[Seed]:
        return sorted({seed for losses in self.by_lr.values() for seed in losses})

    def losses(self) -> Floats:
        """A row a seed, a column a rate; NaN where there is none."""
        found = [[column.get(s) for column in self.by_lr.values()] for s in self.seeds]
        return np.array(found, dtype=np.float64).reshape(len(self.seeds), len(self.by_lr))


@dataclass(frozen=True, kw_only=True)
class Best:
    """What fresh seeds came to at the best rate."""

    lr: float
    n: int
    """Seeds that finished."""
    diverged: int
    mean: float | None
    """Of those that finished; None where one diverged."""
    sd: float | None


def lr_sensitivity(variants: Sequence[Variant], *, baseline: int = 0, fresh: Collection[str] | None = None) -> Grid:
    """Table C: one row for all learning rates of an otherwise equal variant, in the order given.

    Args:
        variants: at least one; one for each learning rate.
        baseline: place of a variant in whose row the others' sensitivity is compared.
        fresh: ids of runs on seeds that chose no rate. They are not in the curve, and alone tell the loss at the
            best rate: of the seeds that chose it, it is too low. None: all runs are in the curve.
    """
    members = _grouped(variants)
    arms = [_arm(group, fresh or ()) for group in members]
    base = next(n for n, group in enumerate(members) if any(v is variants[baseline] for v in group))
    grid = sorted({lr for arm in arms for lr in arm.by_lr})
    rows, data = [], []
    for n, arm in enumerate(arms):
        curve = lr_curve(list(arm.by_lr), arm.losses(), loss_0=arm.loss_0)
        delta = None if n == base else _difference(arm, arms[base])
        best = _best(arm, curve)
        rows.append(_cells(arm, curve, grid, best, delta))
        more = {
            "loss_0": arm.loss_0,
            "loss_0_measured": arm.measured,
            "fresh": best and asdict(best),
            "delta": delta,
        }
        data.append({"variant": arm.label, **strict(asdict(curve)), **more})
    headers = ["\nvariant", *(f"loss at\n{show(lr)}" for lr in grid), "\nLR*", "\nedge", "loss*\nfresh"]
    headers += ["sensitivity\n[95%]", "usable\noctaves", "first diverging\nLR", "Δ sensitivity\n[95%]"]
    return Grid(
        title="Learning rates",
        columns=[Column(header=h, left=n == 0, group="grid" if "at\n" in h else "") for n, h in enumerate(headers)],
        rows=rows,
        notes=_notes(variants, arms),
        data={"rows": data, "tolerance": TOLERANCE},
        per_seed=list(_per_seed(arms)),
    )


def _grouped(variants: Sequence[Variant]) -> list[list[Variant]]:
    found: dict[str, list[Variant]] = {}
    for variant in variants:
        rest = {key: value for key, value in variant.settings.items() if key != LR}
        found.setdefault(json.dumps(rest, sort_keys=True), []).append(variant)
    return list(found.values())


def _arm(group: Sequence[Variant], fresh: Collection[str]) -> _Arm:
    by_lr, apart = Losses(), Losses()
    for variant in group:
        lr = within(config_of(variant.records[0]), "optim", "lr")
        for losses, wanted in ((by_lr, False), (apart, True)):
            runs = tuple(run for run in variant.records if (str(run.get("id")) in fresh) is wanted)
            if lr is not None and runs:
                found = side_of(Variant(variant.label, {}, runs), "final_loss").losses
                losses.setdefault(float(lr), {}).update(found)
    first = group[0]
    word = f"{LR}={show(first.settings.get(LR))}"
    label = " ".join(part for part in first.label.split(" ") if part != word) or in_words(first.records[0])
    known = [loss for v in group for run in v.records if (loss := number(run.get("init_loss"))) is not None]
    vocab = within(config_of(first.records[0]), "tokenizer", "vocab_size")
    loss_0 = statistics.fmean(known) if known else math.log(vocab) if vocab else None
    return _Arm(label, dict(sorted(by_lr.items())), apart, loss_0, bool(known))


def _best(arm: _Arm, curve: LrCurve) -> Best | None:
    """Of the fresh seeds at the best rate of the curve; None where there are none."""
    if curve.best is None:
        return None
    lr = curve.lrs[curve.best]
    known = [loss for loss in arm.fresh.get(lr, {}).values() if loss is not None]
    finite = [loss for loss in known if math.isfinite(loss)]
    if not known:
        return None
    return Best(
        lr=lr,
        n=len(finite),
        diverged=len(known) - len(finite),
        mean=statistics.fmean(finite) if len(finite) == len(known) else None,
        sd=sd(finite),
    )


def _difference(arm: _Arm, base: _Arm) -> dict[str, Any] | None:
    """Against the baseline, where both have the same rates; the interval where they have the same seeds."""
    if list(arm.by_lr) != list(base.by_lr):
        return None
    mean, interval = difference(arm.losses(), arm.loss_0, base.losses(), base.loss_0)
    return {"mean": mean, "interval": interval if arm.seeds == base.seeds else None}


def _cells(
    arm: _Arm, curve: LrCurve, grid: Sequence[float], fresh: Best | None, delta: dict[str, Any] | None
) -> list[str]:
    at = {lr: _loss(curve, n) for n, lr in enumerate(curve.lrs)}
    best = curve.best
    last = f"> {show(curve.lrs[-1])}" if curve.lrs else NONE
    octaves = NONE if curve.octaves is None else f"{'≥ ' if curve.is_open else ''}{curve.octaves:.2f}"
    return [
        arm.label,
        *(at.get(lr, NONE) for lr in grid),
        NONE if best is None else show(curve.lrs[best]),
        NONE if best is None or len(curve.lrs) < 2 else "edge" if curve.edge else "no",
        _fresh(fresh),
        _with_interval(curve.sensitivity, curve.interval, "{:.4f}"),
        octaves,
        last if curve.first_diverging is None else show(curve.first_diverging),
        NONE if delta is None else _with_interval(delta["mean"], delta["interval"], "{:+.4f}"),
    ]


def _loss(curve: LrCurve, n: int) -> str:
    """The mean over seeds, or how many diverged: no mean of the others is said."""
    if curve.diverged[n]:
        return f"diverged {curve.diverged[n]}/{curve.n[n]}"
    return f"{curve.means[n]:.4f}" if math.isfinite(curve.means[n]) else NONE


def _fresh(best: Best | None) -> str:
    if best is None:
        return NOT_KNOWN
    if best.mean is None:
        return f"diverged {best.diverged}/{best.n + best.diverged}"
    return f"{best.mean:.4f}" + ("" if best.sd is None else f" ± {best.sd:.4f}")


def _with_interval(value: float | None, interval: tuple[float, float] | None, form: str) -> str:
    if value is None:
        return NONE
    return form.format(value) + (f" [{form}, {form}]".format(*interval) if interval else "")


def _notes(variants: Sequence[Variant], arms: Sequence[_Arm]) -> list[str]:
    runs = [run for variant in variants for run in variant.records]
    init = "the first loss of a run, mean over runs"
    if not all(arm.measured for arm in arms):
        init += "; of older results the logarithm of the vocabulary"
    notes = [
        _about(runs, arms),
        "sensitivity: mean over the learning rates of min(loss, loss at init) - best loss, in nats · "
        "arXiv:2309.14322 section 2.2 · it depends on the grid, and of few seeds is a little too high",
        f"diverged runs count as the loss at init: {init}",
        f"usable octaves: log2 of the range within {TOLERANCE:g} nats of the best, interpolated · ≥: it reaches an "
        "end of the grid",
    ]
    if any(arm.fresh for arm in arms):
        notes.append("loss* ± sd at LR*, of seeds that did not choose it")
    else:
        notes.append(f"loss*: {NOT_KNOWN} without seeds that did not choose LR*, as a study with lr.mode tuned has")
    seeds = max((len(arm.seeds) for arm in arms), default=0)
    if seeds > 1:
        rough = f" · rough: fewer than {SEEDS_ENOUGH}" if any(len(a.seeds) < SEEDS_ENOUGH for a in arms) else ""
        notes.append(f"intervals by resampling seeds, the same at all learning rates{rough}")
    if any(list(arm.by_lr) != list(arms[0].by_lr) for arm in arms):
        notes.append("warning: the rows have different learning rates, and their sensitivities are not comparable")
    if len({show(within(config_of(run), "train", "steps")) for run in runs}) > 1:
        notes.append("warning: the runs have different numbers of steps")
    return notes


def _about(runs: Sequence[Record], arms: Sequence[_Arm]) -> str:
    """Grid, schedule and seeds."""
    grid = sorted({lr for arm in arms for lr in arm.by_lr})
    steps = sorted({str(steps) for run in runs if (steps := within(config_of(run), "train", "steps")) is not None})
    curve, fresh = _seeds([arm.by_lr for arm in arms]), _seeds([arm.fresh for arm in arms])
    pieces = [
        f"{len(grid)} rates from {show(grid[0])} to {show(grid[-1])}" if len(grid) > 1 else "one rate",
        *sorted({_schedule(run) for run in runs} - {""}),
        *([f"{', '.join(steps)} steps"] if steps else []),
        f"seeds {ranges(curve)}" + (f" chose, {ranges(fresh)} are fresh" if fresh else ""),
    ]
    return " · ".join(pieces)


def _seeds(parts: Sequence[Losses]) -> list[int]:
    return sorted({seed for part in parts for losses in part.values() for seed, _ in losses})


def _schedule(run: Record) -> str:
    """Warm-up and decay."""
    part = config_of(run).get("schedule")
    if not isinstance(part, Mapping):
        return ""
    values = ", ".join(f"{key} {show(value)}" for key, value in part.items() if key != "name")
    return f"{part.get('name')} ({values})" if values else str(part.get("name"))


def _per_seed(arms: Sequence[_Arm]) -> list[dict[str, Any]]:
    return [
        {
            "variant": arm.label,
            "lr": lr,
            "seed": seed,
            "study_seed": study,
            "diverged": loss == math.inf,
            "final_loss": loss if loss is not None and math.isfinite(loss) else None,
            "fresh": is_fresh,
            "init_loss": arm.loss_0,
        }
        for arm in arms
        for is_fresh, part in ((False, arm.by_lr), (True, arm.fresh))
        for lr, losses in part.items()
        for (seed, study), loss in losses.items()
    ]
