"""Every preset with what it has to equal, by family, and the presets for which there is nothing."""

import importlib
import pkgutil

from oracles.compare import Case

CASES: list[Case] = [
    case
    for module in pkgutil.iter_modules(__path__)
    if not module.name.startswith("_")
    for case in importlib.import_module(f"{__name__}.{module.name}").CASES
]

WITHOUT: dict[str, str] = {}
"""Presets that nothing independent covers, and why."""


def find(name: str) -> Case:
    """The case of that name."""
    return next(case for case in CASES if str(case) == name)
