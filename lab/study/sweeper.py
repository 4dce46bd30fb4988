"""What ``-m`` means: every combination of the values given, each checked before the first one is trained."""

import itertools
import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from lab.config import RunConfig
from lab.errors import ConfigError, LabError
from lab.paths import runs_dir
from lab.preset import given_keys

log = logging.getLogger(__name__)


class Override(Protocol):
    """What Hydra's parser makes of one argument; its own class does more."""

    def is_sweep_override(self) -> bool:
        """Whether it has several values."""

    def sweep_string_iterator(self) -> Any:
        """Each value as it would be typed."""

    def get_key_element(self) -> str:
        """The key as it would be typed."""

    input_line: str | None


def product(overrides: Sequence[Override]) -> list[list[str]]:
    """One list of overrides for each combination; the last argument varies fastest."""
    rows = [
        [f"{o.get_key_element()}={value}" for value in o.sweep_string_iterator()]
        if o.is_sweep_override()
        else [str(o.input_line)]
        for o in overrides
    ]
    return [list(row) for row in itertools.product(*rows)]


def check_all(
    runs: Sequence[Sequence[str]],
    trees: Callable[[Sequence[str]], Any],
    plan: Callable[[RunConfig], object],
) -> None:
    """Check every run of a sweep, so that a mistake costs no training.

    Args:
        runs: the overrides of each run.
        trees: composes a run's configuration.
        plan: checks what needs the data; runs that differ in seeds alone share the answer.

    Raises:
        LabError: names the mistake, and the run by its overrides.
    """
    planned: list[RunConfig] = []
    for overrides in runs:
        try:
            config = RunConfig.decode(trees(overrides), given_keys(overrides))
            alike = replace(config, seed=0, study_seed=0, fresh=False)
            if alike not in planned:
                plan(config)
                planned.append(alike)
        except LabError as error:
            own = [word for word in overrides if any(word not in run for run in runs)]
            raise ConfigError(
                f"{error} (in the run {' '.join(own)}; none was started)" if own else str(error)
            ) from error


def make_room() -> None:
    """Make the folder that the runs of a sweep go to.

    Raises:
        LabError: it cannot be written; said once, and not by every run.
    """
    folder = runs_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = None if os.access(folder, os.W_OK | os.X_OK) else "no permission to write"
    except OSError as error:
        reason = error.strerror
    if reason:
        raise LabError(f"{folder}: cannot be written ({reason}); LAB_OUTPUTS sets another place")


def conclude(jobs: Sequence[Any]) -> None:
    """Say what came of a sweep, from what Hydra's launcher returned for each run.

    Raises:
        LabError: a run failed.
    """
    ended = [job.return_value for job in jobs if job.status.name == "COMPLETED"]
    done = sum(trained.was_done for trained in ended)
    statuses = Counter(trained.result["status"] for trained in ended)
    parts = [f"{len(ended) - done} trained", f"{done} already done"]
    parts += [f"{statuses['diverged']} of them diverged"] if statuses["diverged"] else []
    failed = len(jobs) - len(ended)
    parts += [f"{failed} failed"] if failed else []
    summary = f"{len(jobs)} run{'' if len(jobs) == 1 else 's'}: {', '.join(parts)}. `lab table` shows them."
    if failed:
        raise LabError(summary)
    log.info("%s", summary)
