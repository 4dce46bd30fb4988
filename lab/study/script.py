"""What a study runs, in which order: the baseline first, and rates before the reports that use them.

An arm that starts from another's weights has a stage behind that one's, in which the ids of those runs are known.

A generator that yields stages and is sent their results. It draws nothing and asks no clock, so that after a
restart the same results lead to the same stages.
"""

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lab.study.cell import Cell, Role, Stage
from lab.study.design import Arm, arms
from lab.study.expand import Results
from lab.study.sections import LrMode
from lab.study.study import LR_KEY, Study
from lab.study.tune import Pick, beyond, pick
from lab.study.words import Keys, word

BASELINE = "baseline"
"""The stage after which the baseline's noise is known."""


def script(study: Study, shared: Sequence[str] = (), keys: Keys | None = None) -> Generator[Stage, Results, None]:
    """The stages of a study. An arm that cannot be tuned because a run failed is not reported.

    Args:
        study: at its tier.
        shared: words of the command line, which go to all runs.
        keys: of the choices; those of the shipped tree by default.

    Raises:
        ConfigError: a shared word contradicts the study.
    """
    baseline, *variants = arms(study, shared, keys)
    fresh = [arm for arm in variants if arm.start is None]
    ids: dict[tuple[str, int | None], str | None] = {}
    for name, some in ((BASELINE, [baseline]), ("variants", fresh)):
        rates: dict[str, float | None] = dict.fromkeys(arm.name for arm in some)
        if study.lr.mode is not LrMode.shared:
            tuned = yield from _tune(study, name, some)
            rates = {found.arm: found.lr for found in tuned if found.lr is not None}
        reported = [(arm, rates[arm.name]) for arm in some if arm.name in rates]
        cells = tuple(_cell(arm, seed, rate, "report") for arm, rate in reported for seed in study.seeds.report)
        if cells:
            ids |= _ids((yield Stage(name, cells)))
    for name, some in _later(variants):
        cells = tuple(_started(arm, seed, ids) for arm in some for seed in study.seeds.report)
        ids |= _ids((yield Stage(name, cells)))


def _later(variants: Sequence[Arm]) -> Iterator[tuple[str, list[Arm]]]:
    """The stages of arms that start from others, each behind those that it starts from."""
    left = [arm for arm in variants if arm.start is not None]
    number = 1
    while left:
        waiting = {arm.name for arm in left}
        ready = [arm for arm in left if arm.start not in waiting]
        assert ready, "study.check refuses arms that wait for each other"
        yield f"started {number}", ready
        left = [arm for arm in left if arm not in ready]
        number += 1


def _ids(results: Results) -> dict[tuple[str, int | None], str | None]:
    """The run of each arm and seed; None where a result stands in for one that is not there yet."""
    return {(cell.arm, cell.seed): (result or {}).get("id") for cell, result in results.items()}


def _started(arm: Arm, seed: int, ids: Mapping[tuple[str, int | None], str | None]) -> Cell:
    """A run that starts from another's weights, as far as that is known."""
    cell, run = _cell(arm, seed, None, "report"), ids.get((str(arm.start), seed))
    return cell if run is None else replace(cell, overrides=(*cell.overrides, word("init_from", run)))


def _tune(study: Study, name: str, some: Sequence[Arm]) -> Generator[Stage, Results, tuple[Pick, ...]]:
    """Try the rates of the grid, and beyond it for those that are best at its edge."""
    known: dict[Cell, Any] = {}
    trying: dict[str, Sequence[float]] = {arm.name: study.lr.grid for arm in some}
    for extension in range(study.lr.extend + 1):
        cells = tuple(
            _cell(arm, seed, rate, "tune") for arm in some for rate in trying[arm.name] for seed in study.seeds.tune
        )
        if cells:
            known |= yield Stage(f"{name}, tuning" + (f" {extension + 1}" if extension else ""), cells)
        trying = {found.arm: beyond(found) for found in picks(known, study.primary)}
    return picks(known, study.primary)


def picks(results: Results, metric: str) -> tuple[Pick, ...]:
    """The learning rates that tuning runs lead to, of each arm in the order of the runs."""
    losses: dict[str, dict[float, list[float | None]]] = {}
    for cell, result in results.items():
        if cell.role == "tune":
            assert cell.lr is not None
            losses.setdefault(cell.arm, {}).setdefault(cell.lr, []).append(loss(result, metric))
    return tuple(pick(arm, own) for arm, own in losses.items())


def loss(result: Mapping[str, Any] | None, metric: str) -> float | None:
    """The number that counts of a run: +inf where it diverged, None where it did not come to an end."""
    if result is None or result["status"] not in ("done", "diverged"):
        return None
    return math.inf if result["status"] == "diverged" else float(result[metric])


def _cell(arm: Arm, seed: int, rate: float | None, role: Role) -> Cell:
    own = (word("seed", seed), *([] if rate is None else [word(LR_KEY, rate)]))
    return Cell(arm.name, (*arm.overrides, *own), role, seed, rate)
