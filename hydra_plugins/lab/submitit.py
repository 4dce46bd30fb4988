"""Hydra's launcher interface, handed on to ``lab.study.cluster``; keys in conf/hydra/launcher/submitit_*.yaml."""

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from hydra.core.utils import JobReturn, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.lab import _jobs

SHARED = (
    "name",
    "timeout_min",
    "nodes",
    "tasks_per_node",
    "cpus_per_task",
    "gpus_per_node",
    "mem_gb",
    "stderr_to_stdout",
)
"""Parameters that submitit has for every kind of cluster; the others are called slurm_partition and so on."""


class _Launcher(Launcher):
    executor = ""

    def __init__(self, **parameters: Any) -> None:
        plain = {k: OmegaConf.to_container(v) if OmegaConf.is_config(v) else v for k, v in parameters.items()}
        self.parameters = {k if k in SHARED else f"{self.executor}_{k}": v for k, v in plain.items()}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what ``launch`` needs.

        Raises:
            LabError: submitit is not installed.
        """
        from lab.errors import LabError

        if find_spec("submitit") is None:
            raise LabError("this launcher needs submitit: pip install 'ablation-lab[slurm]'")
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Submit the jobs, and return what came of each.

        Raises:
            LabError: they cannot be submitted.
        """
        from lab.study.cluster import Cluster
        from lab.study.expand import own

        setup_globals()
        configs = _jobs.configs(self.hydra_context, self.config, job_overrides, initial_job_idx)
        jobs = [
            (
                " ".join(own(overrides, job_overrides)),
                partial(_jobs.run, self.hydra_context, config, self.task_function),
            )
            for overrides, config in zip(job_overrides, configs, strict=True)
        ]
        ended = Cluster(self.executor, self.parameters).run(jobs)
        return [_jobs.returned(overrides, end) for overrides, end in zip(job_overrides, ended, strict=True)]


class SlurmLauncher(_Launcher):
    """Every run a job of Slurm's."""

    executor = "slurm"


class LocalLauncher(_Launcher):
    """Every run a process of this machine, without a limit, as submitit would start it on a cluster."""

    executor = "local"
