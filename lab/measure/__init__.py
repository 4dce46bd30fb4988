"""Measures: what is known of a finished run beside its loss.

A measure is one file: the first line of its docstring says what is measured, the rest how and in which unit, and
``measure`` takes it of a loaded run, in fp32 with one thread. What has no value for a model, as the loss beyond the
end of learned positions, is left out. Nothing here trains, and nothing is read but the run's folder and its data.
"""

import importlib
import math
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.training.load import Loaded


def names() -> list[str]:
    """All measures, sorted; none is imported."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def describe(name: str) -> str:
    """What is measured: the first line of the module's docstring."""
    doc = importlib.import_module(f"{__name__}.{name}").__doc__ or ""
    return doc.strip().partition("\n")[0]


def take(name: str, loaded: "Loaded") -> dict[str, float]:
    """Take a measure of a run: finite numbers by their names.

    Raises:
        LabError: the run's data cannot be had or have changed.
    """
    module = importlib.import_module(f"{__name__}.{name}")
    values = {key: float(value) for key, value in module.measure(loaded).items()}
    return {key: value for key, value in values.items() if math.isfinite(value)}
