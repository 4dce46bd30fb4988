"""Hydra's launcher interface, handed on to ``lab.study.pool``."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Optional

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from hydra_plugins.lab import _jobs


@dataclass
class PoolLauncherConf:
    """Registered as ``hydra/launcher=pool``."""

    _target_: str = "hydra_plugins.lab.pool.PoolLauncher"
    n_jobs: Optional[int] = None  # noqa: UP045 (OmegaConf reads it)
    """Runs at once; null: one for each core, or on GPUs jobs_per_gpu for each."""
    jobs_per_gpu: int = 1
    """Runs at once on a GPU."""


ConfigStore.instance().store(group="hydra/launcher", name="pool", node=PoolLauncherConf, provider="lab")


class PoolLauncher(Launcher):
    """Every run in a process of its own, so many at once as this machine has room for."""

    threads = 1
    """CPU threads of a run that sets none."""
    stop_on_error = False
    """Whether nothing new starts after a failure; ``launch`` then returns less than was asked for."""

    def __init__(self, n_jobs: int | None = None, jobs_per_gpu: int = 1) -> None:
        self.n_jobs, self.jobs_per_gpu = n_jobs, jobs_per_gpu

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what ``launch`` needs.

        Raises:
            ConfigError: a key is out of its range.
        """
        from lab.component import check_number

        check_number("hydra.launcher.jobs_per_gpu", self.jobs_per_gpu, above=0)
        check_number("hydra.launcher.n_jobs", 1 if self.n_jobs is None else self.n_jobs, above=0)
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run the jobs, and return what came of each, in their order.

        Raises:
            Stopped: the process was asked to stop.
        """
        from lab.study.expand import own
        from lab.study.pool import Job, Pool

        setup_globals()
        configs = _jobs.configs(self.hydra_context, self.config, job_overrides, initial_job_idx)
        if (first := next(configs, None)) is None:
            return []
        places = self.places(first)
        jobs = (
            Job(
                " ".join(own(overrides, job_overrides)),
                partial(_jobs.run, self.hydra_context, config, self.task_function),
            )
            for overrides, config in zip(job_overrides, chain([first], configs), strict=True)
        )
        ended = Pool(places, stop_on_error=self.stop_on_error).run(jobs)
        return [_jobs.returned(*pair) for pair in zip(job_overrides, ended, strict=False)]

    def places(self, config: DictConfig) -> list[dict[str, str]]:
        """Where runs like this one go, so many at once."""
        from lab.study.slots import slots

        threads = config.threads or self.threads
        return slots(self.n_jobs, jobs_per_gpu=self.jobs_per_gpu, device=str(config.device), threads=threads)
