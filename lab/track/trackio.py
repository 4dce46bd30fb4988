"""Trackio: a local database for all runs, ``trackio/`` in the outputs folder; nothing is sent anywhere.

Seen with ``TRACKIO_DIR=outputs/trackio trackio show --project lab``; the environment's own ``TRACKIO_DIR`` counts
where it is set.
"""

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.paths import outputs_dir
from lab.track import TrackConfig, Tracker
from lab.track._place import place
from lab.track._series import earlier, flat, numbers

REMOTE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_WEBHOOK_URL", "TRACKIO_BUCKET_ID")
"""Settings that would send a run elsewhere."""


@dataclass(frozen=True, kw_only=True)
class Config(TrackConfig):
    """Metrics, configuration and result to a local database."""

    project: str
    """Project that runs go to."""

    def build(self, run_id: str, config: Mapping[str, Any], folder: Path) -> Tracker:
        """A tracker whose run holds every step once: a resumed run's is written anew from ``metrics.jsonl``.

        Raises:
            LabError: Trackio is not installed.
        """
        if find_spec("trackio") is None:
            raise LabError("track=trackio needs trackio: pip install 'ablation-lab[trackio]'")
        os.environ.setdefault("TRACKIO_DIR", str((outputs_dir() / "trackio").resolve()))  # read when it is imported
        with _alone():
            trackio = import_module("trackio")
            with suppress(ValueError):  # there is no such project yet
                for run in trackio.Api().runs(self.project):
                    if run.name.endswith(run_id):
                        run.delete()
            where = place(run_id, config)
            made = trackio.init(
                project=self.project,
                name=f"{where.title(config.get('seed'))} {run_id}",
                group=where.variant,
                config={"study": where.study, "variant": where.variant, **config},
                embed=False,
                auto_log_cpu=False,
                auto_log_gpu=False,
            )
        return Trackio(made, folder)


class Trackio(Tracker):
    """One run in the database."""

    def __init__(self, run: Any, folder: Path) -> None:
        self._run, self._told = run, 0
        for step, line in enumerate(earlier(folder), start=1):
            self.log(step, line)

    def log(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """One step's metrics, unless the database has them."""
        if step > self._told:
            self._run.log(numbers(metrics), step=step)
            self._told = step

    def finish(self, result: Mapping[str, Any]) -> None:
        """The result as values of the last step, and the end."""
        self._run.log({f"result/{name}": value for name, value in flat(result)}, step=self._told)
        with _alone():
            import_module("trackio").finish()  # as its own would be called once more when the process ends


@contextmanager
def _alone() -> Iterator[None]:
    """Without network, and without the lines that Trackio prints."""
    from huggingface_hub import constants

    kept = {name: os.environ.pop(name) for name in REMOTE if name in os.environ}
    was = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True  # else it would ask for the name of the token's owner
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        constants.HF_HUB_OFFLINE = was
        os.environ.update(kept)
