"""Frequencies of rotary positions, as they are or rescaled for sequences longer than a model was trained on.

Pair p of a rotated part of width r turns by ω_p = theta^(-2p/r) per position; s is the factor of the length.

====== ============================================================================== =================
name   frequencies                                                                    paper
====== ============================================================================== =================
none   ω
linear ω / s: positions are interpolated                                              arXiv:2306.15595
ntk    those of theta s^(r/(r-2)): the first pair keeps its own, the last is ω / s    arXiv:2309.00071
llama3 ω above a frequency, ω / s below another, blended by turns per length between  arXiv:2407.21783
yarn   ω to ω / s by a ramp over the pairs; cosine and sine times 0.1 ln s + 1        arXiv:2309.00071
====== ============================================================================== =================

Computed in fp32, to the bit as Hugging Face's transformers does it. Its ``dynamic`` is ``ntk`` with an s that grows
with the sequence. ``yarn`` rounds the ends of the ramp outward to whole pairs, as the authors' code does and the
paper does not; its factor of cosine and sine, squared, is the paper's temperature of the scores.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from lab.errors import ConfigError


class Scaling(StrEnum):
    """How frequencies change with the length."""

    none = "none"
    linear = "linear"
    ntk = "ntk"
    llama3 = "llama3"
    yarn = "yarn"


@dataclass(frozen=True, kw_only=True)
class Rope:
    """What the frequencies of a layer follow from."""

    theta: float
    """Base of the geometric series."""
    width: int
    """Rotated numbers of a head, r: even."""
    scaling: Scaling
    """How frequencies change with the length."""
    factor: float
    """Longer length over original length, s."""
    original: int
    """Original length, tokens."""
    low_freq_factor: float
    """llama3: turns per original length below which a pair is divided by s."""
    high_freq_factor: float
    """llama3: turns per original length above which a pair is left as it is."""
    beta_fast: float
    """yarn: turns per original length at which the ramp starts."""
    beta_slow: float
    """yarn: turns per original length at which the ramp ends."""

    def frequencies(self) -> tuple[Tensor, float]:
        """Radians per position of each pair, in fp32 on the CPU, and the factor of cosine and sine.

        Raises:
            ConfigError: the rotated part is too narrow for the scaling.
        """
        return SCALINGS[self.scaling](self)

    def series(self, theta: float) -> Tensor:
        """The geometric series theta^(2p/r), so that its inverse are the frequencies."""
        pairs = torch.arange(0, self.width, 2, dtype=torch.float32, device="cpu")  # on meta it would load dynamo
        return torch.pow(theta, pairs / self.width)


def _none(rope: Rope) -> tuple[Tensor, float]:
    return 1 / rope.series(rope.theta), 1.0


def _linear(rope: Rope) -> tuple[Tensor, float]:
    return 1 / rope.series(rope.theta) / rope.factor, 1.0


def _ntk(rope: Rope) -> tuple[Tensor, float]:
    if rope.width <= 2:
        raise ConfigError(
            f"position.scaling ntk needs more than the {rope.width} numbers per head that are rotated"
        )
    return 1 / rope.series(rope.theta * rope.factor ** (rope.width / (rope.width - 2))), 1.0


def _llama3(rope: Rope) -> tuple[Tensor, float]:
    own = 1 / rope.series(rope.theta)
    turns = rope.original / (2 * math.pi / own)
    low, high = rope.low_freq_factor, rope.high_freq_factor
    share = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - share) * own / rope.factor + share * own, 1.0


def _yarn(rope: Rope) -> tuple[Tensor, float]:
    def pair(turns: float) -> float:
        """The pair, not whole, that makes so many turns in the original length."""
        return rope.width * math.log(rope.original / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    series = rope.series(rope.theta)
    first = max(math.floor(pair(rope.beta_fast)), 0)
    last: float = min(math.ceil(pair(rope.beta_slow)), rope.width - 1)
    last = last if last != first else last + 0.001
    pairs = torch.arange(rope.width // 2, dtype=torch.float32, device="cpu")
    kept = 1 - ((pairs - first) / (last - first)).clamp(0, 1)
    temper = 0.1 * math.log(rope.factor) + 1 if rope.factor > 1 else 1.0
    return 1 / (rope.factor * series) * (1 - kept) + 1 / series * kept, temper


SCALINGS: dict[str, Callable[[Rope], tuple[Tensor, float]]] = {
    "none": _none,
    "linear": _linear,
    "ntk": _ntk,
    "llama3": _llama3,
    "yarn": _yarn,
}
"""From the name of a scaling to its frequencies and factor."""
