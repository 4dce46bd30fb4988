"""The worker's side of ``lab.study.pool``: one job, what it says, how it ends when its launcher asks or dies."""

import logging
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, NoReturn

from lab.errors import LabError, Stopped, one_line

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Those that ask a process to end."""

GRACE_S = 10.0
"""Seconds that a worker has to save its run after its launcher has died."""


@dataclass
class Ended:
    """What came of a job: a value, or the error that ended it."""

    value: Any = None
    error: Exception | None = None


class StoppedError(LabError):
    """A run was asked to stop, and can be resumed; or several in one process."""

    runs = 1
    """How many."""


def work(pipe: Connection, environment: Mapping[str, str], job: bytes) -> None:
    """Do a pickled job in a process made for it, and send what came of it."""
    signal.signal(signal.SIGTERM, _stop)
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to all; the launcher says what they mean
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(environment)
    sender = _Pipe(pipe)
    logging.getLogger("lab").addHandler(sender)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # the server has them blocked
        threading.Thread(target=_listen, args=(pipe,), daemon=True).start()
        ended = _done(job)
    except Stopped as stop:
        error = StoppedError(one_line(stop))
        error.runs = stop.runs
        ended = Ended(error=error)
    signal.signal(signal.SIGTERM, _ignore)
    sender.send(ended)


def _done(job: bytes) -> Ended:
    try:
        call: Callable[[], Any] = pickle.loads(job)
        ended = Ended(call())
        pickle.dumps(ended)
    except Exception as error:
        return Ended(error=portable(error))
    return ended


def portable(error: Exception) -> Exception:
    """The error, or where it cannot be pickled one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {one_line(error)}")
    return error


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, _ignore)
    raise Stopped("stopped", number)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Not SIG_IGN: Python complains of a signal that is on its way when that is set."""


def _listen(pipe: Connection) -> None:
    """Stop the process when the launcher says so, or is no more."""
    try:
        while True:
            pipe.recv()
            os.kill(os.getpid(), signal.SIGTERM)
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_S)
        os._exit(128 + signal.SIGTERM)


class _Pipe(logging.Handler):
    """Sends warnings to the launcher, which owns the console."""

    def __init__(self, pipe: Connection) -> None:
        super().__init__(logging.WARNING)
        self.pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        self.send((record.levelno, self.format(record)))

    def send(self, what: object) -> None:
        """Send from one thread at a time, perhaps to nobody."""
        assert self.lock is not None
        with self.lock, suppress(OSError):
            self.pipe.send(what)
