"""What belongs to a sweep or a study as a whole, and to none of its runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.config import SWEEP_KEYS
from lab.decode import section
from lab.errors import ConfigError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """Settings of a sweep, at the top level of what Hydra composes."""

    tier: str | None
    """The size of a study: one of the tiers of its file; null: its sizes as they stand."""
    accept_mde: bool
    """Whether to go on where a study cannot see the effect that is sought."""
    on_error: str
    """When a run fails: ``continue`` with the others, ``stop`` before the next, or ``retry:N`` times."""

    def __post_init__(self) -> None:
        if self.on_error not in ("continue", "stop") and not re.fullmatch(r"retry:[1-9]\d?", self.on_error):
            near = did_you_mean(self.on_error, ["continue", "stop", "retry:1"])
            raise ConfigError(
                f"on_error '{self.on_error}' must be continue, stop or retry:N with N from 1 to 99{near}"
            )

    @property
    def retries(self) -> int:
        """How often a run that fails is tried again within the sweep."""
        return int(self.on_error.partition(":")[2] or 0)

    @staticmethod
    def decode(tree: Mapping[str, Any]) -> "SweepSettings":
        """The settings in what Hydra composed.

        Raises:
            ConfigError: one of them is not allowed.
        """
        return section("", SweepSettings, {key: tree[key] for key in SWEEP_KEYS if key != "study"})


def refuse_alone(tree: Mapping[str, Any]) -> None:
    """Refuse for a single run what only a sweep or a study has.

    Raises:
        ConfigError: names the key and where it belongs.
    """
    settings = SweepSettings.decode(tree)
    if settings.tier is not None:
        raise ConfigError(f"tier '{settings.tier}' belongs to a study: lab train study=NAME tier={settings.tier}")
    if settings.accept_mde:
        raise ConfigError("accept_mde=true belongs to a study: lab train study=NAME accept_mde=true")
    if settings.on_error != "continue":
        raise ConfigError(f"on_error '{settings.on_error}' belongs to a sweep: lab train -m … or study=NAME")
    if tree.get("study") is not None:
        raise ConfigError("a study is trained by lab train study=NAME, and planned by lab plan study=NAME")
