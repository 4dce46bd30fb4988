"""What a study file says of publications: the claims it tests, and the measures it takes of its runs."""

import pkgutil
from dataclasses import dataclass, field
from pathlib import Path

import lab
from lab.component import check, check_number
from lab.errors import did_you_mean
from lab.runs.units import is_loss
from lab.study.claims import Claim, Want

MEASURES = (
    "attention",
    "cache",
    "compression",
    "gradients",
    "lengths",
    "outputs",
    "probes",
    "step",
    "train_gap",
    "transplant",
)
"""Measures that lab comes with, by the names of their files."""

OF_GRID = ("lr_sensitivity", "first_diverging_lr", "best_loss")
"""Metrics of an arm's runs at all learning rates of a grid, one value a tuning seed."""

OF_RUN = (
    "bits_per_byte",
    "clipped_share",
    "early_loss",
    "epochs",
    "final_loss",
    "flops_per_token",
    "init_loss",
    "layers",
    "measures",
    "parameters",
    "peak_memory_mib",
    "spikes",
    "steps_done",
    "tokens",
    "tokens_per_s",
)
"""Metrics of one run: what a dotted path into its results may begin with."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published claim that a study tests."""

    claim: str
    """Its id."""
    metric: str | None = None
    """Our number that is tested: a dotted path into a run's results, or one of ``OF_GRID``; null: ``primary``.

    With ``{}`` in it, for the claim's names, numbers of the same runs are set against each other, the baseline's.
    """
    want: Want | None = None
    """Which way our number is better, for the better one of a pair; null: a loss lower, others as the claim's."""
    arms: dict[str, str] = field(default_factory=dict)
    """Names of the claim with those of arms; a name that is not here is an arm's as it stands, if there is one."""
    at: str | None = None
    """Under which key of the claim's figures the published values are; null: the claim's."""
    margin: float | None = None
    """Largest difference of our number that counts as none; null: ``stats.margin``, of the metric ``primary``."""
    note: str | None = None
    """For readers."""

    def wanted(self, claim: Claim, metric: str) -> Want | None:
        """Which way our number is better; None where nobody said it.

        That of a loss needs no saying, unless the claim is that two are level.
        """
        if self.want is not None:
            return Want(self.want)
        return Want.lower if is_loss(metric) and claim.want is not Want.flat else claim.want

    def __post_init__(self) -> None:
        if self.margin is not None:
            check_number("margin", self.margin, above=0)
        if self.metric is not None:
            check_metric("metric", self.metric)


def within_runs(metric: str) -> bool:
    """Whether a metric has a place for the names of a claim, which are numbers of one run and not arms."""
    return "{}" in metric


def check_metric(key: str, metric: str) -> None:
    """Refuse what is no number of a run or of its grid of learning rates.

    Raises:
        ConfigError: it is none.
    """
    first = metric.partition(".")[0]
    known = (*OF_RUN, *OF_GRID)
    near = did_you_mean(first, known)
    check(first in known, key, metric, f"must begin with one of {', '.join(known)}{near}")
    check(first not in OF_GRID or first == metric, key, metric, f"must be {first} alone")
    if first == "measures":
        parts = metric.split(".")
        check(len(parts) == 3 and all(parts), key, metric, "must be measures.NAME.KEY")


def measures() -> list[str]:
    """The measures there are, by the files of their folder, none of which is imported."""
    folder = Path(lab.__file__).parent / "measure"
    found = {module.name for module in pkgutil.iter_modules([str(folder)]) if not module.name.startswith("_")}
    return sorted(found | {*MEASURES})


def check_measures(given: list[str]) -> None:
    """Refuse a measure that is not there.

    Raises:
        ConfigError: names it, and those that are there.
    """
    known = measures()
    for name in given:
        check(name in known, "measures", name, f"must be one of {', '.join(known)}{did_you_mean(name, known)}")
        check(given.count(name) == 1, "measures", name, "is there twice")
