"""What the workers of ``test_pool`` do; without pytest, which would take long to import in each."""

import logging
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from lab.errors import Stopped
from lab.study import worker


def answer(value):
    return value, os.getpid()


def fail(error):
    raise error


class StubbornError(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


def stubborn():
    raise StubbornError("no", "way")


def unspeakable():
    return threading.Lock()


def kill_self(number):
    os.kill(os.getpid(), number)
    time.sleep(60)


def kill_server(value):
    """Kill the fork server, unless that was done already and the parent is another."""
    server = os.getppid()
    with suppress(FileNotFoundError, ProcessLookupError):  # the other worker was faster
        if b"multiprocessing.forkserver" in Path(f"/proc/{server}/cmdline").read_bytes():
            os.kill(server, signal.SIGKILL)
    time.sleep(0.3)
    return value


def leave_a_child(seconds):
    """A process that has the pipe of its parent, which is killed."""
    if os.fork() == 0:
        time.sleep(seconds)
        os._exit(0)
    kill_self(signal.SIGKILL)


def leave(status):
    os._exit(status)


def warn(text):
    logging.getLogger("lab.somewhere").warning(text)
    logging.getLogger("lab.somewhere").info("not for the console")


def mark(folder: Path, name: str, seconds: float) -> str | None:
    """Say in a folder when the job was done, and on which GPU."""
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
    begin = time.monotonic()
    time.sleep(seconds)
    (folder / name).write_text(f"{begin} {time.monotonic()} {gpu}")
    return gpu


def wait_for_stop(folder: Path, name: str, *, tidy_s: float = 0.0, deaf: bool = False) -> None:
    """Say that the job has begun; when it is stopped, say so too."""
    worker.GRACE_S = 1.0
    begun = folder / f"{name}.begun"
    while True:
        try:
            begun.write_text(str(os.getpid()))
            time.sleep(60)
        except Stopped as stop:
            if deaf:
                continue
            time.sleep(tidy_s)
            (folder / f"{name}.stopped").write_text(str(stop.signal_number))
            raise


def ignore_and_wait(folder: Path, name: str) -> None:
    """Cannot be stopped but by force."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wait_for_stop(folder, name)
