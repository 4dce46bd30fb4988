"""What ``-m`` means: every combination of the values given, each checked before the first one is trained."""

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

from lab.config import RunConfig
from lab.errors import ConfigError


class Override(Protocol):
    """What Hydra's parser makes of one argument; its own class does more."""

    def is_sweep_override(self) -> bool:
        """Whether it has several values."""

    def sweep_string_iterator(self) -> Any:
        """Each value as it would be typed."""

    def get_key_element(self) -> str:
        """The key as it would be typed."""

    input_line: str | None


def product(overrides: Sequence[Override]) -> list[list[str]]:
    """One list of overrides for each combination; the last argument varies fastest."""
    rows = [
        [f"{o.get_key_element()}={value}" for value in o.sweep_string_iterator()]
        if o.is_sweep_override()
        else [str(o.input_line)]
        for o in overrides
    ]
    return [list(row) for row in itertools.product(*rows)]


def check_all(trees: Sequence[tuple[Sequence[str], Any]]) -> None:
    """Decode every run of a sweep, so that a mistake costs no training.

    Raises:
        ConfigError: names the run by its overrides, and the mistake.
    """
    for overrides, tree in trees:
        try:
            RunConfig.decode(tree)
        except ConfigError as error:
            raise ConfigError(f"{error} (in the run {' '.join(overrides)})") from error
