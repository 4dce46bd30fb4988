"""How fast this machine trains: some steps of one configuration on every worker at once, as a sweep runs it."""

import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lab import choices
from lab.errors import LabError
from lab.runs.find import find_run

if TYPE_CHECKING:
    from lab.config import RunConfig

STEPS = 20
"""Updates of each worker."""


@dataclass(frozen=True)
class Trial:
    """What some steps took."""

    step_s: float
    """Seconds of a training step, the median."""
    rest_s: float
    """Seconds of a run beside its steps: building, two validations, saving."""
    kept_bytes: int
    """What a finished run leaves on disk, but for what grows with its steps."""
    step_bytes: float
    """What a step adds."""


def trial(config: "RunConfig", target: "RunConfig | None", *, slots: list[dict[str, str]]) -> Trial:
    """Train a configuration for some steps on each of the slots, seeds apart, in an outputs folder of its own.

    Raises:
        LabError: it cannot be trained.
    """
    from lab.study.pool import Job, Pool

    steps = min(STEPS, config.train.steps)
    short = replace(
        config,
        train=replace(config.train, steps=steps, eval_every=None, checkpoint_every=None),
        track=choices.load("track", "none").Config(name="none", layers=False, layers_every=1),
        init_from=None if config.init_from is None else str(find_run(config.init_from).path),
    )
    print(f"lab plan: {len(slots)} times {steps} steps of the baseline, to know its speed", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="lab-plan-") as folder:
        jobs = [
            Job(f"trial {number}", partial(_measured, replace(short, seed=number), target, folder))
            for number in range(len(slots))
        ]
        ended = Pool(slots).run(iter(jobs))
    for one in ended:
        if one.error is not None:
            raise LabError(f"{STEPS} steps of the baseline, to see how fast it is: {one.error}") from one.error
    trials: list[Trial] = [one.value for one in ended]
    return Trial(
        step_s=statistics.mean(one.step_s for one in trials),
        rest_s=statistics.mean(one.rest_s for one in trials),
        kept_bytes=max(one.kept_bytes for one in trials),
        step_bytes=max(one.step_bytes for one in trials),
    )


def _measured(config: "RunConfig", target: "RunConfig | None", folder: str) -> Trial:
    """Train in a worker, and measure."""
    from lab.progress import hide
    from lab.runs.metrics import column, read_lines
    from lab.training.run import train

    os.environ["LAB_OUTPUTS"] = folder
    hide()
    began = time.perf_counter()
    run = train(config, target).folder
    took = time.perf_counter() - began
    steps = column(read_lines(Path(run) / "timing.jsonl"), "wall_s")
    sizes = {file: file.stat().st_size for file in Path(run).rglob("*") if file.is_file()}
    growing = sum(size for file, size in sizes.items() if file.suffix == ".jsonl")
    return Trial(
        step_s=statistics.median(steps),
        rest_s=took - sum(steps),
        kept_bytes=sum(sizes.values()) - growing,
        step_bytes=growing / len(steps),
    )
