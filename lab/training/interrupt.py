"""Ctrl-C, SIGTERM and a lost terminal: the loop ends after its step, saves, and the process says so and leaves."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)

_once = False


class Request:
    """Whether the process was asked to stop, and by which signal."""

    signal_number: int | None = None


def ask_once() -> None:
    """Let only the first signal count in this process, for its launcher repeats it and ends what does not end."""
    global _once
    _once = True


@contextmanager
def stop_request() -> Iterator[Request]:
    """Note the first signal instead of dying of it; a second one acts at once. An ignored SIGHUP stays ignored."""
    request = Request()
    former: dict[int, object] = {}
    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]

    def note(number: int, frame: FrameType | None) -> None:
        request.signal_number = number
        if number == signal.SIGHUP:
            let_go(terminals)
        if _once:
            former.update(dict.fromkeys(former, signal.SIG_IGN))
        restore()

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    for number in SIGNALS:
        handler = signal.getsignal(number)
        if number == signal.SIGHUP and handler == signal.SIG_IGN:  # nohup
            continue
        if number == signal.SIGUSR2 and not callable(handler):  # submitit has a handler: the time limit is near
            continue
        former[number] = handler
        signal.signal(number, note)
    try:
        yield request
    finally:
        restore()


def let_go(descriptors: list[int]) -> None:
    """Send to nowhere what would go to a terminal that is lost: writing to it fails."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
