"""Hydra's sweeper interface, handed on to ``lab.study.sweeper``."""

from dataclasses import dataclass
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
        """Run one job for each combination of the overrides' values."""
        from hydra.core.override_parser.overrides_parser import OverridesParser

        from lab.study.sweeper import check_all, product

        assert self.hydra_context is not None
        assert self.launcher is not None
        assert self.config is not None
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        runs = product(parser.parse_overrides(arguments))
        load = self.hydra_context.config_loader.load_sweep_config
        check_all([(run, without_hydra(load(self.config, run))) for run in runs])
        return [self.launcher.launch(runs, initial_job_idx=0)]


def without_hydra(config: DictConfig) -> DictConfig:
    """A job's configuration as the task sees it."""
    with open_dict(config):
        del config["hydra"]
    return config
