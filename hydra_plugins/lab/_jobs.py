"""What launchers share: jobs as Hydra describes them, as they are run, and as Hydra wants them back."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, filter_overrides, run_job, setup_globals
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict


def configs(
    hydra_context: HydraContext, config: DictConfig, job_overrides: Sequence[Sequence[str]], first: int
) -> Iterator[DictConfig]:
    """Each job's configuration, numbered from ``first``."""
    for number, overrides in enumerate(job_overrides, first):
        composed = hydra_context.config_loader.load_sweep_config(config, list(overrides))
        with open_dict(composed):
            composed.hydra.job.id = composed.hydra.job.num = number
        yield composed


def run(hydra_context: HydraContext, config: DictConfig, task_function: TaskFunction) -> JobReturn:
    """One job, in the process that trains it."""
    setup_globals()
    done = run_job(
        hydra_context=hydra_context,
        task_function=task_function,
        config=config,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )
    done.cfg = done.hydra_cfg = None  # typed by classes that Hydra loads anew where match composes: no pickle
    return done


def decoded(config: DictConfig) -> Any:
    """The run of a job."""
    from lab.config import RunConfig
    from lab.preset import given_keys

    tree = copy.deepcopy(config)
    with open_dict(tree):
        del tree["hydra"]
    return RunConfig.decode(tree, given_keys(_words(config)))


def run_stacked(configs: Sequence[DictConfig]) -> list[Any]:
    """Jobs that are stacked, in the process that trains them; what came of each."""
    from lab.commands.train import train_stacked
    from lab.study.worker import Ended, portable

    setup_globals()
    HydraConfig.instance().set_config(configs[0])
    runs = [(decoded(config), _words(config)) for config in configs]
    ended = []
    for (_, words), came in zip(runs, train_stacked(runs), strict=True):
        done = JobReturn(overrides=words, status=JobStatus.COMPLETED, _return_value=came)
        ended.append(Ended(error=portable(came)) if isinstance(came, Exception) else Ended(done))
    return ended


def _words(config: DictConfig) -> list[str]:
    words: list[str] = OmegaConf.to_container(config.hydra.overrides.task)  # type: ignore[assignment]
    return words


def returned(overrides: Sequence[str], ended: Any) -> JobReturn:
    """Hydra's form of what came of a run; ``ended`` is None when it was not started."""
    if ended is not None and ended.error is None:
        value: JobReturn = ended.value
        return value
    job = JobReturn(overrides=filter_overrides(overrides))
    if ended is not None:
        job.status, job.return_value = JobStatus.FAILED, ended.error
    return job
