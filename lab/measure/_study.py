"""The last stage of a study: its reported runs are measured as its file asks, when all runs have ended."""

import logging
from collections.abc import Iterable, Sequence

from lab.config import After, RunConfig
from lab.errors import ConfigError, LabError
from lab.measure._runs import done, lacking, take_of_runs
from lab.runs.store import RunFolder
from lab.study.manifest import Manifest
from lab.study.sweeper import has_ended

log = logging.getLogger(__name__)


def names_of(manifest: Manifest) -> list[str]:
    """The measures that a study asks for; none of a plain sweep."""
    return list((manifest.declared or {}).get("measures") or ())


def check(manifest: Manifest, configs: Iterable[RunConfig]) -> None:
    """Refuse a study whose runs would keep nothing to measure.

    Raises:
        ConfigError: names the key.
    """
    if names_of(manifest) and any(config.checkpoint.after is After.none for config in configs):
        raise ConfigError(
            f"checkpoint.after 'none' keeps no weights, of which study {manifest.name} takes measures "
            f"({', '.join(names_of(manifest))}): it must be weights or all"
        )


def reported(manifest: Manifest) -> list[RunFolder]:
    """The runs that are measured: those that are reported, and done."""
    return done(entry.folder for entry in manifest.runs if entry.cell.role == "report")


def measure_study(manifest: Manifest, *, n_jobs: int | None, here: bool) -> None:
    """Take the measures that reported runs still lack, if all runs have ended.

    Args:
        manifest: of the study, after its last stage.
        n_jobs: runs at once; None: one for each core.
        here: whether this is the machine to compute on; else it is only said how to.

    Raises:
        LabError: some could not be taken.
        Stopped: the process was asked to stop; the same command goes on.
    """
    names = names_of(manifest)
    if not names or not all(map(has_ended, manifest.runs)):
        return
    folders = reported(manifest)
    waiting = [folder for folder in folders if lacking(folder, names)]
    if not waiting:
        return
    if not here:
        log.info("%s: lab measure %s takes its measures (%s)", manifest.label, manifest.label, ", ".join(names))
        return
    _say(manifest, names, waiting)
    came = take_of_runs(waiting, names, n_jobs=n_jobs)
    for line in came.failed:
        log.error("%s", line)
    if came.failed:
        raise LabError(
            f"study {manifest.name}: {len(came.failed)} measures could not be taken; the same command tries again"
        )


def _say(manifest: Manifest, names: Sequence[str], waiting: Sequence[RunFolder]) -> None:
    count = len(waiting)
    runs = f"{count} run{'' if count == 1 else 's'}"
    log.info(
        "%s: measuring %s of %s; `lab measure %s` shows it", manifest.label, ", ".join(names), runs, manifest.label
    )
