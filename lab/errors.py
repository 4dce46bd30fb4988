"""The errors a user can mend, and the words that help to mend them."""

import difflib
from collections.abc import Iterable


class LabError(Exception):
    """Something the user can act on: printed as one line, exit status 1."""


class ConfigError(LabError, ValueError):
    """A wrong setting. The message opens with the key, then gives the value and what is allowed.

    A component's own checks name the key relative to its group (``eps -1.0 must be > 0``);
    ``lab.config`` puts the group in front (``norm.eps -1.0 must be > 0``).
    """


class Held(LabError):  # noqa: N818 (nothing went wrong)
    """Another process trains the run; who waits finds it done."""


class Stopped(KeyboardInterrupt):
    """The process was asked to stop. Not an ``Exception``: it ends a sweep too."""

    def __init__(self, message: str, signal_number: int, *, runs: int = 1) -> None:
        super().__init__(message)
        self.signal_number, self.runs = signal_number, runs


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """``"; did you mean 'rmsnorm'?"`` for the nearest choice, or an empty string when none is near."""
    near = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""


def one_line(message: object) -> str:
    """Collapse a message of several lines into one."""
    return " ".join(str(message).split())
