"""What every choice of every group is: a frozen dataclass of plain values, checked when made."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from lab.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Component:
    """Base of all ``Config`` classes. Values come from YAML, so no field has a default."""

    name: str
    """The choice: the stem of its file and of its YAML, or a dotted import path."""
    outside_graph: ClassVar[tuple[str, ...]] = ()
    """Fields that change no operation of the model: runs that differ in them can be stacked."""


def check(ok: bool, key: str, value: object, allowed: str) -> None:
    """Refuse a value.

    Raises:
        ConfigError: ``ok`` is false; the message reads ``key value allowed``.
    """
    if not ok:
        raise ConfigError(f"{key} {value!r} {allowed}" if isinstance(value, str) else f"{key} {value} {allowed}")


def check_number(
    key: str,
    value: float,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> None:
    """Refuse a number that is not finite or is out of its range.

    Raises:
        ConfigError: names the key, the value and the range.
    """
    bounds = [
        (above, ">", lambda v, b: v > b),
        (least, ">=", lambda v, b: v >= b),
        (below, "<", lambda v, b: v < b),
        (most, "<=", lambda v, b: v <= b),
    ]
    wanted = [(b, sign, test) for b, sign, test in bounds if b is not None]
    text = " and ".join(f"{sign} {b:g}" for b, sign, _ in wanted)
    ok = isinstance(value, Real) and math.isfinite(value) and all(test(value, b) for b, _, test in wanted)
    check(ok, key, value, f"must be {text}" if text else "must be a finite number")
