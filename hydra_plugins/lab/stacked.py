"""Hydra's launcher interface, handed on to ``lab.training.stacked``; keys in conf/hydra/launcher/stacked.yaml."""

from collections.abc import Sequence
from functools import partial

from hydra.core.utils import JobReturn, setup_globals

from hydra_plugins.lab import _jobs
from hydra_plugins.lab.pool import PoolLauncher


class StackedLauncher(PoolLauncher):
    """Runs of one graph as one batched model in a process of their own."""

    def __init__(self, max_stack: int = 16, n_jobs: int | None = None, jobs_per_gpu: int = 1) -> None:
        super().__init__(n_jobs, jobs_per_gpu)
        self.max_stack = max_stack

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run the jobs, and return what came of each, in their order.

        Raises:
            ConfigError: a key is out of its range.
            Stopped: the process was asked to stop.
        """
        from lab.component import check_number
        from lab.study.pool import Job, Pool
        from lab.study.stacks import each, name, stacks
        from lab.training.stack import graph

        check_number("hydra.launcher.max_stack", self.max_stack, above=0)
        setup_globals()
        configs = list(_jobs.configs(self.hydra_context, self.config, job_overrides, initial_job_idx))
        places = self.places(configs[0])
        graphs = [graph(_jobs.decoded(config)) for config in configs]
        found = stacks(graphs, most=self.max_stack, places=len(places))
        jobs = (
            Job(name(job_overrides, runs), partial(_jobs.run_stacked, [configs[run] for run in runs]))
            for runs in found
        )
        ended = Pool(places, stop_on_error=self.stop_on_error).run(jobs)
        return [_jobs.returned(*pair) for pair in zip(job_overrides, each(found, ended), strict=True)]
