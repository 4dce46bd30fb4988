"""One arm of a study as a plan prices it: checked as it will be trained, its size, what a run of it takes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lab.errors import ConfigError, LabError

if TYPE_CHECKING:
    from lab.commands._trial import Trial
    from lab.config import RunConfig
    from lab.study.cell import Cell
    from lab.study.design import Arm
    from lab.study.study import Study
    from lab.training.plan import Plan

THREADS = "threads=1"
"""What the launcher of sweeps gives a run that says nothing of its threads."""


@dataclass(frozen=True)
class Priced:
    """An arm that could be trained."""

    arm: "Arm"
    plan: "Plan"
    asked: tuple["RunConfig", "RunConfig | None"]
    """What was decoded, and what it is to be matched to."""

    @property
    def steps(self) -> int:
        """Updates of a run."""
        return self.plan.config.train.steps

    @property
    def tokens_per_step(self) -> int:
        """That one update reads."""
        return self.plan.config.train.batch_size * self.plan.architecture.dims.max_seq_len

    @property
    def flops_per_token(self) -> float:
        """In training."""
        from lab.model.count import training_flops_per_token

        return training_flops_per_token(self.plan.outline, self.plan.architecture.dims.max_seq_len)

    def ended(self, cell: "Cell") -> Mapping[str, Any] | None:
        """The result of one of its runs, None where it has not ended."""
        from lab.paths import runs_dir
        from lab.runs.store import RunFolder
        from lab.study.state import ENDED

        plan, config = self.plan, self.plan.config
        if cell.lr is not None:
            plan = replace(plan, config=replace(config, optim=replace(config.optim, lr=cell.lr)))
        assert cell.seed is not None
        result = RunFolder(runs_dir() / plan.id_with(cell.seed)).result_now()
        return result if result is not None and result["status"] in ENDED else None

    def seconds(self, base: "Priced", tried: "Trial") -> float:
        """What a run takes, by what the baseline took."""
        work = self.flops_per_token * self.tokens_per_step / (base.flops_per_token * base.tokens_per_step)
        every = self.plan.config.train.eval_every
        validations = 2 + (0 if every is None else (self.steps - 1) // every)
        return self.steps * tried.step_s * work + tried.rest_s * validations / 2

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        from lab.model.count import parameters

        return {
            "name": self.arm.name,
            "overrides": list(self.arm.overrides),
            "parameters": parameters(self.plan.outline).total,
            "flops_per_token": self.flops_per_token,
            "steps": self.steps,
            "tokens": self.steps * self.tokens_per_step,
            "epochs": self.plan.batches.epochs(self.steps),
        }


def refuse_twins(study: str, arms: Iterable[Priced]) -> None:
    """Refuse arms that are written differently and are the same.

    Raises:
        ConfigError: names two of them.
    """
    first: dict[str, str] = {}
    for price in arms:
        twin = first.setdefault(price.plan.run_id, price.arm.name)
        if twin != price.arm.name:
            raise ConfigError(f"study {study}: '{twin}' and '{price.arm.name}' come to the same run")


def refuse_long(study: "Study", arms: Iterable[Priced]) -> None:
    """Refuse a study of which a run would read more of its corpus than its file allows.

    Raises:
        ConfigError: names the arm, and how many steps would do.
    """
    from lab.study.epochs import refuse_epochs

    if study.max_epochs is not None:
        for price in arms:
            refuse_epochs(study.name, price.arm.name, study.max_epochs, price.plan.config, price.plan.batches)


def priced(arm: "Arm", *, config_dir: str | None = None) -> Priced:
    """Compose and check an arm as a sweep would train it.

    Raises:
        LabError: it cannot be trained; the message names it.
    """
    from lab.compose import compose_config, match_target
    from lab.training.plan import plan

    given = any(word.startswith("threads=") for word in arm.overrides)
    try:
        config = compose_config([*arm.overrides, *([] if given else [THREADS])], config_dir=config_dir)
        target = match_target(config)
        return Priced(arm, plan(config, target), (config, target))
    except LabError as error:
        raise ConfigError(f"{error} (in the arm {arm.name})") from error
