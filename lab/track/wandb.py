"""Weights & Biases: online where it can be, else offline segments that ``lab wandb sync`` uploads.

A run's id there is its id here, its group the study and its job type the variant. Every process that trains a run
makes one segment below ``wandb/`` in the run's folder; a step is in one of them only, though training went back to
a checkpoint. Nothing is asked, and nothing is waited for longer than the timeouts.
"""

import logging
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lab.component import check_number
from lab.errors import one_line
from lab.track import TrackConfig, Tracker
from lab.track._place import place
from lab.track._series import earlier, flat, numbers, spike_rows

if TYPE_CHECKING:
    from wandb import Run, Settings

PROBE_S = 2.0
"""Seconds in which a server must answer to count as there."""

TAG_MOST = 64
"""Characters that a tag may have."""

SPIKE_COLUMNS = ("definition", "step", "series", "value", "lr")

log = logging.getLogger(__name__)


class Mode(StrEnum):
    """When to talk to the server."""

    auto = "auto"
    online = "online"
    offline = "offline"
    disabled = "disabled"


@dataclass(frozen=True, kw_only=True)
class Config(TrackConfig):
    """Metrics, configuration, result and spikes to Weights & Biases."""

    mode: Mode
    """``auto``: online with a key and a server that answers, else offline; ``online`` also tries without an
    answer, and goes offline where that fails; ``disabled``: no file either."""
    project: str
    """Project that runs go to."""
    entity: str | None
    """User or team; null: the key's own."""
    group: str | None
    """Group of the run; null: its study, where it is part of one."""
    job_type: str | None
    """Job type of the run; null: its variant in the study."""
    init_timeout: float
    """Seconds to wait for the server at the start; more than 0. What wandb adds to it is about ten seconds."""
    finish_timeout: float
    """Seconds to wait for the last uploads; more than 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("init_timeout", self.init_timeout, above=0)
        check_number("finish_timeout", self.finish_timeout, above=0)

    def build(self, run_id: str, config: Mapping[str, Any], folder: Path) -> Tracker:
        """A tracker whose files are in ``wandb/`` below the run's folder."""
        import wandb

        online = self._online()
        try:
            run = self._start(run_id, config, folder, self._mode(online))
        except Exception as error:
            if not online:
                raise
            log.warning("wandb: offline, for the server refused: %s: %s", type(error).__name__, one_line(error))
            wandb.teardown()  # it would hold the id for the run that was refused
            run = self._start(run_id, config, folder, "offline")
        return Wandb(run, folder, begun=self._segments(folder) > 1)

    def _online(self) -> bool:
        """Whether to try to go online; says why not where that was wanted."""
        if self.mode in (Mode.offline, Mode.disabled) or os.environ.get("WANDB_MODE") in ("offline", "disabled"):
            return False
        missing = "there is no key" if not has_key() else None
        if missing is None and self.mode is Mode.auto and not answers(base_url()):
            missing = f"{urlsplit(base_url()).netloc} does not answer"
        if missing:
            log.info("wandb: offline, for %s; `lab wandb sync` uploads later", missing)
        return missing is None

    def _mode(self, online: bool) -> str:
        disabled = self.mode is Mode.disabled or os.environ.get("WANDB_MODE") == "disabled"
        return "disabled" if disabled else "online" if online else "offline"

    def _start(self, run_id: str, config: Mapping[str, Any], folder: Path, mode: str) -> "Run":
        import wandb

        where = place(run_id, config)
        return wandb.init(
            id=run_id,
            project=self.project,
            entity=self.entity,
            group=self.group or where.study,
            job_type=self.job_type or where.variant,
            name=where.title(config.get("seed"))[:128],
            tags=[word for word in where.overrides if len(word) <= TAG_MOST],
            config=dict(config),
            dir=folder,
            mode=mode,  # type: ignore[arg-type]
            resume="allow" if earlier(folder) else None,
            reinit="finish_previous",
            settings=quiet(init_timeout=self.init_timeout, finish_timeout=self.finish_timeout),
        )

    def _segments(self, folder: Path) -> int:
        return sum(not path.is_symlink() and path.is_dir() for path in folder.glob("wandb/*run-*"))


class Wandb(Tracker):
    """One segment of a run."""

    def __init__(self, run: "Run", folder: Path, *, begun: bool) -> None:
        """Go on after what earlier segments hold; where there are none, with what was trained before."""
        self._run, self._folder = run, folder
        lines = earlier(folder)
        self._told = len(lines) if begun else 0
        for step, line in enumerate(lines, start=1):
            self.log(step, line)

    def log(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """One step's metrics, unless a segment has them."""
        if step > self._told:
            self._run.log(numbers(metrics), step=step)
            self._told = step

    def finish(self, result: Mapping[str, Any]) -> None:
        """The result and the spikes into the summary, and the end.

        The table of spikes needs a server that answers, where the run is online: wandb would wait for it.
        """
        try:
            for name, value in flat(result):
                self._run.summary[name] = value
            if self._run.offline or answers(base_url()):
                self._tabulate(result)
            else:
                log.warning("wandb: %s answers no more; what it lacks is in %s", *self._whereabouts())
        finally:
            self._run.finish(exit_code=int(result.get("status") == "failed"))

    def _tabulate(self, result: Mapping[str, Any]) -> None:
        import wandb

        rows = spike_rows(self._folder, result)
        table = wandb.Table(columns=list(SPIKE_COLUMNS), data=[list(row) for row in rows])
        self._run.summary["spike_steps"] = table

    def _whereabouts(self) -> tuple[str, Path]:
        """The server, and the file of this segment."""
        return urlsplit(base_url()).netloc, Path(self._run.dir).parent


def quiet(*, init_timeout: float, finish_timeout: float) -> "Settings":
    """How wandb is to run: it prints nothing, watches nothing, and waits no longer than these seconds."""
    import wandb

    return wandb.Settings(
        silent=True,
        console="off",
        disable_git=True,
        save_code=False,
        init_timeout=init_timeout,
        finish_timeout=finish_timeout,
        login_timeout=PROBE_S,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )


def base_url() -> str:
    """The server's address."""
    return os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai"


def has_key() -> bool:
    """Whether a key is in the environment or in the netrc file."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    file = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    try:
        return netrc(str(file)).authenticators(urlsplit(base_url()).hostname or "") is not None
    except (OSError, NetrcParseError):
        return False


def answers(url: str) -> bool:
    """Whether there is an HTTP server at ``url`` that says anything at all within ``PROBE_S`` seconds."""
    said = threading.Event()

    def ask() -> None:
        try:
            with urllib.request.urlopen(url, timeout=PROBE_S):
                said.set()
        except urllib.error.HTTPError as error:
            error.close()
            said.set()
        except (OSError, ValueError):
            pass

    asking = threading.Thread(target=ask, daemon=True)  # looking up a name has no timeout of its own
    asking.start()
    asking.join(PROBE_S)
    return said.is_set()
