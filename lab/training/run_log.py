"""``run.log``: what the package says while it trains a run, with the time and down to tracebacks."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lab.runs.store import RunFolder, unwritable


class _RunLog(logging.FileHandler):
    """A log that a full disk cuts short without a word."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's own name)
        """Nothing: what cannot be logged has its own error where it matters."""


@contextmanager
def run_log(folder: RunFolder) -> Iterator[None]:
    """Send what the package logs to the run's ``run.log`` too, with the time and down to tracebacks.

    Raises:
        LabError: the file cannot be opened.
    """
    try:
        handler = _RunLog(folder.log, encoding="utf-8")
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
