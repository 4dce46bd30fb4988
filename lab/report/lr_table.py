"""How the final loss of each variant depends on the learning rate.

Variants that are equal in everything but ``optim.lr`` are one row.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lab.report.grid import NONE, Column, Grid, strict
from lab.report.pairs import Seed, side_of
from lab.report.rows import within
from lab.report.variants import Variant, config_of, in_words, show
from lab.stats.contrast import Floats
from lab.stats.lr_sensitivity import TOLERANCE, LrCurve, difference, lr_curve
from lab.stats.resample import SEEDS_ENOUGH

LR = "optim.lr"
"""The key that the variants of one row differ in."""


@dataclass(frozen=True)
class _Arm:
    label: str
    by_lr: dict[float, dict[Seed, float | None]]
    """Final losses by rate and seed; infinite where diverged."""
    loss_0: float | None

    @property
    def seeds(self) -> list[Seed]:
        return sorted({seed for losses in self.by_lr.values() for seed in losses})

    def losses(self) -> Floats:
        """A row a seed, a column a rate; NaN where there is none."""
        found = [[column.get(s) for column in self.by_lr.values()] for s in self.seeds]
        return np.array(found, dtype=np.float64).reshape(len(self.seeds), len(self.by_lr))


def lr_sensitivity(variants: Sequence[Variant], *, baseline: int = 0) -> Grid:
    """Table C: one row for all learning rates of an otherwise equal variant, in the order given.

    Args:
        variants: at least one; one for each learning rate.
        baseline: place of a variant in whose row the others' sensitivity is compared.
    """
    members = _grouped(variants)
    arms = [_arm(group) for group in members]
    base = next(n for n, group in enumerate(members) if any(v is variants[baseline] for v in group))
    grid = sorted({lr for arm in arms for lr in arm.by_lr})
    rows, data = [], []
    for n, arm in enumerate(arms):
        curve = lr_curve(list(arm.by_lr), arm.losses(), loss_0=arm.loss_0)
        delta = None if n == base else _difference(arm, arms[base])
        rows.append(_cells(arm, curve, grid, delta))
        data.append({"variant": arm.label, **strict(asdict(curve)), "loss_0": arm.loss_0, "delta": delta})
    headers = ["\nvariant", *(f"loss at\n{show(lr)}" for lr in grid), "\nLR*", "\nedge", "\nloss* ± sd"]
    headers += ["sensitivity\n[95%]", "usable\noctaves", "first diverging\nLR", "Δ sensitivity\n[95%]"]
    return Grid(
        title="Learning rates",
        columns=[Column(header=header, left=header == "\nvariant") for header in headers],
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


def _arm(group: Sequence[Variant]) -> _Arm:
    by_lr: dict[float, dict[Seed, float | None]] = {}
    for variant in group:
        lr = within(config_of(variant.records[0]), "optim", "lr")
        if lr is not None:
            by_lr.setdefault(float(lr), {}).update(side_of(variant, "final_loss").losses)
    first = group[0]
    word = f"{LR}={show(first.settings.get(LR))}"
    label = " ".join(part for part in first.label.split(" ") if part != word) or in_words(first.records[0])
    vocab = within(config_of(first.records[0]), "tokenizer", "vocab_size")
    return _Arm(label, dict(sorted(by_lr.items())), math.log(vocab) if vocab else None)


def _difference(arm: _Arm, base: _Arm) -> dict[str, Any] | None:
    """Against the baseline, where both have the same rates; the interval where they have the same seeds."""
    if list(arm.by_lr) != list(base.by_lr):
        return None
    mean, interval = difference(arm.losses(), arm.loss_0, base.losses(), base.loss_0)
    return {"mean": mean, "interval": interval if arm.seeds == base.seeds else None}


def _cells(arm: _Arm, curve: LrCurve, grid: Sequence[float], delta: dict[str, Any] | None) -> list[str]:
    at = {lr: _loss(curve, n) for n, lr in enumerate(curve.lrs)}
    best = curve.best
    last = f"> {show(curve.lrs[-1])}" if curve.lrs else NONE
    octaves = NONE if curve.octaves is None else f"{'≥ ' if curve.is_open else ''}{curve.octaves:.2f}"
    return [
        arm.label,
        *(at.get(lr, NONE) for lr in grid),
        NONE if best is None else show(curve.lrs[best]),
        NONE if best is None or len(curve.lrs) < 2 else "edge" if curve.edge else "no",
        NONE if best is None else f"{curve.means[best]:.4f}{_sd(arm.losses()[:, best])}",
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


def _sd(losses: Floats) -> str:
    finite = losses[np.isfinite(losses)]
    return f" ± {finite.std(ddof=1):.4f}" if finite.size > 1 else ""


def _with_interval(value: float | None, interval: tuple[float, float] | None, form: str) -> str:
    if value is None:
        return NONE
    return form.format(value) + (f" [{form}, {form}]".format(*interval) if interval else "")


def _notes(variants: Sequence[Variant], arms: Sequence[_Arm]) -> list[str]:
    notes = [
        "sensitivity: mean over the learning rates of min(loss, loss at init) - best loss, in nats "
        "(arXiv:2309.14322 section 2.2); it depends on the grid",
        "diverged runs count as the loss at init, taken as the logarithm of the vocabulary; loss* is of the seeds "
        "that chose LR*, so a little low",
        f"usable octaves: log2 of the range within {TOLERANCE:g} nats of the best, interpolated; ≥: it reaches an "
        "end of the grid",
    ]
    seeds = max((len(arm.seeds) for arm in arms), default=0)
    if seeds > 1:
        rough = f"; rough: fewer than {SEEDS_ENOUGH}" if any(len(arm.seeds) < SEEDS_ENOUGH for arm in arms) else ""
        notes.append(f"intervals by resampling seeds, the same at all learning rates{rough}")
    if any(list(arm.by_lr) != list(arms[0].by_lr) for arm in arms):
        notes.append("warning: the rows have different learning rates, and their sensitivities are not comparable")
    if len({show(within(config_of(v.records[0]), "train", "steps")) for v in variants}) > 1:
        notes.append("warning: the runs have different numbers of steps")
    return notes


def _per_seed(arms: Sequence[_Arm]) -> list[dict[str, Any]]:
    return [
        {
            "variant": arm.label,
            "lr": lr,
            "seed": seed,
            "study_seed": study,
            "diverged": loss == math.inf,
            "final_loss": loss if loss is not None and math.isfinite(loss) else None,
        }
        for arm in arms
        for lr, losses in arm.by_lr.items()
        for (seed, study), loss in losses.items()
    ]
