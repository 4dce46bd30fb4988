"""``run.log``: what the package says while it trains a run, with the time and down to tracebacks.

Where a process trains several runs side by side, each log has what is said at its run's turn, or at nobody's.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lab.runs.store import RunFolder, unwritable

_turn: RunFolder | None = None


class _RunLog(logging.FileHandler):
    """A log that a full disk cuts short without a word."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder.log, encoding="utf-8")
        self.folder = folder

    def emit(self, record: logging.LogRecord) -> None:
        """Write what is not said at another run's turn."""
        if _turn in (None, self.folder):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's own name)
        """Nothing: what cannot be logged has its own error where it matters."""


@contextmanager
def run_log(folder: RunFolder) -> Iterator[None]:
    """Send what the package logs to the run's ``run.log`` too, with the time and down to tracebacks.

    Raises:
        LabError: the file cannot be opened.
    """
    try:
        handler = _RunLog(folder)
    except OSError as error:
        raise unwritable(folder.log, error) from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.setLevel(logging.DEBUG)
    logger = logging.getLogger("lab")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        with suppress(OSError):
            handler.close()


@contextmanager
def turn_of(folder: RunFolder) -> Iterator[None]:
    """Within it, what is said is of one run alone."""
    global _turn
    before, _turn = _turn, folder
    try:
        yield
    finally:
        _turn = before
