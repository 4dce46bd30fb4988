"""The ``match`` group: what a run is made equal to another in, by the width of its feed-forward branch.

A larger norm or a smaller attention is paid for elsewhere: the inner width is solved for, in multiples of
``activation.multiple_of``, so that the run comes within one percent of the configuration that ``match.to`` gives.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from lab.component import Component
from lab.errors import ConfigError
from lab.model.transformer import Architecture, Transformer

WITHIN = 0.01
"""Largest relative difference that counts as equal."""


@dataclass(frozen=True)
class Match:
    """A run made equal to another."""

    architecture: Architecture
    """The run's, with the width solved for."""
    d_ff: int
    """That width."""
    target: float
    """What the other configuration has."""
    value: float
    """What this one has now."""

    @property
    def residual(self) -> float:
        """The relative difference that is left."""
        return self.value / self.target - 1


@dataclass(frozen=True, kw_only=True)
class MatchConfig(Component, ABC):
    """Contract: a measure of a model, in which a run is made equal to another; or none."""

    to: list[str]
    """The overrides of the configuration to be equal to; ``[]``: the default configuration."""

    unit: ClassVar[str | None] = None
    """What ``measure`` counts, in words; None where nothing is matched."""

    @abstractmethod
    def measure(self, model: Transformer, seq_len: int) -> float:
        """The size that is to be equal."""

    def solve(self, architecture: Architecture, target: Architecture) -> Match:
        """The architecture with the inner width at which it is nearest to the target.

        Raises:
            ConfigError: the width is set by hand, or none comes near enough.
        """
        activation, dims = architecture.activation, architecture.dims
        if activation.d_ff is not None:
            raise ConfigError(
                f"match={self.name} solves for the width that activation.d_ff {activation.d_ff} sets: leave it null"
            )
        step = activation.multiple_of

        def at(multiples: int) -> Architecture:
            return replace(architecture, activation=replace(activation, d_ff=multiples * step))

        def size(multiples: int) -> float:
            return self.measure(at(multiples).outline(), dims.max_seq_len)

        wanted = self.measure(target.outline(), target.dims.max_seq_len)
        multiples, value = _nearest(size, wanted)
        if abs(value / wanted - 1) > WITHIN:
            raise ConfigError(
                f"match={self.name} cannot be reached: activation.d_ff {multiples * step}, the nearest width in "
                f"multiples of {step}, gives {value:,.0f} {self.unit} and not {wanted:,.0f} "
                f"({100 * (value / wanted - 1):+.1f} %); a run of other sizes gives them to match.to too, "
                f"as in match.to=[model.dim={dims.dim}]"
            )
        if multiples * step == activation.width(dims):
            return Match(architecture, multiples * step, wanted, value)
        return Match(at(multiples), multiples * step, wanted, value)


def _nearest(size: Callable[[int], float], wanted: float) -> tuple[int, float]:
    """The positive whole number at which a function that rises in a straight line is nearest to a value."""
    one, two = size(1), size(2)
    nearest = max(1, round(1 + (wanted - one) / (two - one)))
    return nearest, size(nearest)


def facts(config: MatchConfig, match: Match) -> dict[str, Any]:
    """A match for ``result.json``."""
    return {
        "by": config.name,
        "to": config.to,
        "d_ff": match.d_ff,
        "target": match.target,
        "value": match.value,
        "residual": match.residual,
    }
