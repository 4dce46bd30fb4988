"""Hydra's sweeper interface, handed on to ``lab.study.sweeper``."""

from dataclasses import dataclass, replace
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict


@dataclass
class LabSweeperConf:
    """Registered as ``hydra/sweeper=lab``."""

    _target_: str = "hydra_plugins.lab.sweeper.LabSweeper"


ConfigStore.instance().store(group="hydra/sweeper", name="lab", node=LabSweeperConf, provider="lab")


class LabSweeper(Sweeper):
    """Expands ``-m`` overrides, checks every run before the first one starts, and launches them."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what ``sweep`` needs."""
        from hydra.core.plugins import Plugins

        self.config, self.hydra_context = config, hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Run one job for each combination of the overrides' values.

        Raises:
            LabError: a run is refused, and none is started; or a run failed.
        """
        from hydra.core.override_parser.overrides_parser import OverridesParser

        from lab.study.sweeper import check_all, conclude, make_room, product

        assert self.hydra_context is not None
        assert self.launcher is not None
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        runs = product(parser.parse_overrides(arguments))
        check_all(runs, self._tree, self._plan)
        make_room()
        jobs = self.launcher.launch(runs, initial_job_idx=0)
        conclude(jobs)
        return [jobs]

    def _tree(self, overrides: Any) -> DictConfig:
        """A job's configuration as the task sees it."""
        from lab.compose import one_line_errors

        assert self.hydra_context is not None
        assert self.config is not None
        with one_line_errors(overrides):
            tree = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(tree):
            del tree["hydra"]
        return tree

    def _plan(self, config: Any) -> object:
        """Check a run against its data; against this machine's devices only if it is to run here."""
        from hydra._internal.core_plugins.basic_launcher import BasicLauncher

        from lab.compose import match_target
        from lab.config import Device
        from lab.training.plan import plan

        here = isinstance(self.launcher, BasicLauncher)
        return plan(config if here else replace(config, device=Device.auto), match_target(config))
