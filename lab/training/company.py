"""The runs that a process trains side by side, as each of them sees the others."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from lab.training.interrupt import Request, stop_request


@dataclass(frozen=True)
class Company:
    """What a run has to know of them."""

    size: int
    """How many they are, with itself."""
    asked: Callable[[], AbstractContextManager[Request]]
    """A context for its loop: whether the process is asked to stop."""


NOBODY = Company(1, stop_request)
"""It is trained alone."""
