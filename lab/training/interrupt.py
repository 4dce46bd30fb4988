"""Ctrl-C, SIGTERM and a lost terminal: the loop ends after its step, saves, and the process says so and leaves."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lab.progress import let_go_of_terminal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)

_once = False


class Request:
    """Whether the process was asked to stop, and by which signal."""

    signal_number: int | None = None


def ask_once() -> None:
    """Let only the first signal count in this process, for its launcher repeats it and ends what does not end."""
    global _once
    _once = True


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


@contextmanager
def stop_request() -> Iterator[Request]:
    """Note the first signal instead of dying of it; a second one acts at once. An ignored SIGHUP stays ignored."""
    request = Request()
    former: dict[int, object] = {}

    def note(number: int, frame: FrameType | None) -> None:
        request.signal_number = number
        if number == signal.SIGHUP:
            let_go_of_terminal()
        if _once:
            former.update(dict.fromkeys(former, _ignore))  # SIG_IGN: one that is on its way would complain
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
