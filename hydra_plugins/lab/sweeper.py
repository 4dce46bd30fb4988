"""Hydra's sweeper interface, handed on to ``lab.study.sweeper``."""

import sys
from dataclasses import dataclass
from typing import Any, List, Optional, cast  # noqa: UP035 (what omegaconf reads)

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

HERE = ("basic", "pool", "stacked", "joblib", "submitit_local")
"""Launchers whose runs are trained on this machine, so that its devices can be checked."""


@dataclass
class LabSweeperConf:
    """Registered as ``hydra/sweeper=lab``."""

    _target_: str = "hydra_plugins.lab.sweeper.LabSweeper"
    only: Optional[List[str]] = None  # noqa: UP006, UP045
    """Ids of the runs to train; null: all."""
    fresh: bool = False
    """Whether those that are done are trained again."""


ConfigStore.instance().store(group="hydra/sweeper", name="lab", node=LabSweeperConf, provider="lab")


class LabSweeper(Sweeper):
    """Expands ``-m`` overrides or a study, checks every run before the first one starts, and launches them."""

    def __init__(self, only: Any = None, fresh: bool = False) -> None:
        self.only, self.fresh = None if only is None else frozenset(only), fresh

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what ``sweep`` needs."""
        from hydra.core.plugins import Plugins

        # A study's file says that this is a sweep; its runs must know it too.
        if "hydra.mode=MULTIRUN" not in config.hydra.overrides.hydra:
            config.hydra.overrides.hydra.append("hydra.mode=MULTIRUN")
        self.config, self.hydra_context = config, hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        name = OmegaConf.select(config, "hydra.runtime.choices")["hydra/launcher"]
        self.here, self.tells = name in HERE, name == "basic"
        own = OmegaConf.select(config, "hydra.launcher.cpus_per_task", default=None)
        self.threads = None if self.tells else getattr(self.launcher, "threads", own or 1)
        self.stops_itself = hasattr(self.launcher, "stop_on_error")

    def sweep(self, arguments: list[str]) -> Any:
        """Run one job for each run that is asked for and not done.

        Raises:
            LabError: a run is refused, and none is started; or a run failed.
        """
        from lab.measure._study import check, measure_study
        from lab.study.asked import asked

        assert self.config is not None
        tree = cast(dict[str, Any], OmegaConf.to_container(self.config))
        words = [word for word in sys.argv[1:] if not word.startswith("hydra.sweeper.")]
        name, folders = self._names()
        sweep, script = asked(
            self,
            tree,
            self._parsed(arguments),
            words,
            only=self.only,
            fresh=self.fresh,
            name=name,
            folders=folders,
        )
        if self.stops_itself:
            self.launcher.stop_on_error = sweep.settings.on_error == "stop"  # type: ignore[union-attr]
        sweep.check(script())
        check(sweep.manifest, (planned.config for planned in sweep.plans.values()))
        sweep.carry_out(script())
        measure_study(
            sweep.manifest, n_jobs=1 if self.tells else getattr(self.launcher, "n_jobs", None), here=self.here
        )
        return []

    def _names(self) -> tuple[str, list[str]]:
        """The study's name, and the trees of choices of the user's own."""
        assert self.config is not None
        runtime = OmegaConf.select(self.config, "hydra.runtime")
        folders = [source.path for source in runtime.config_sources if source.schema == "file"]
        return str(runtime.choices.get("study")), [folder for folder in folders if folder]

    def _parsed(self, arguments: list[str]) -> Any:
        from hydra.core.override_parser.overrides_parser import OverridesParser

        assert self.hydra_context is not None
        return OverridesParser.create(config_loader=self.hydra_context.config_loader).parse_overrides(arguments)

    def plan(self, overrides: Any) -> Any:
        """Compose and check a run as it will be launched."""
        from lab.compose import match_target
        from lab.config import RunConfig
        from lab.preset import given_keys
        from lab.training.plan import plan

        config = RunConfig.decode(self._tree(self._with_threads(overrides)), given_keys(overrides))
        return plan(config, match_target(config), here=self.here)

    def launch(self, runs: Any, configs: Any) -> Any:
        """Hand runs to Hydra's launcher, with what was left to this machine to decide."""
        from lab.study.sweeper import Job, settled

        assert self.launcher is not None
        words = list(runs) if self.tells else [settled(*run) for run in zip(runs, configs, strict=True)]
        jobs = self.launcher.launch(words, initial_job_idx=0)
        return [
            Job(None, was_done=job.return_value.was_done)
            if job.status.name == "COMPLETED"
            else Job(job._return_value)
            for job in jobs
            if job.status.name != "UNKNOWN"  # not started, after a failure
        ]

    def _with_threads(self, overrides: Any) -> list[str]:
        """A run that says nothing of its threads gets those that the launcher gives it."""
        given = self.threads is None or any(word.startswith("threads=") for word in overrides)
        return [*overrides] if given else [*overrides, f"threads={self.threads}"]

    def _tree(self, overrides: list[str]) -> DictConfig:
        """A job's configuration as the task sees it."""
        from lab.compose import one_line_errors

        assert self.hydra_context is not None
        assert self.config is not None
        with one_line_errors(overrides):
            tree = self.hydra_context.config_loader.load_sweep_config(self.config, overrides)
        with open_dict(tree):
            del tree["hydra"]
        return tree
