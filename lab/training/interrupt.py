"""Ctrl-C and SIGTERM: the loop ends after the step it is in, saves, and the process says so and leaves."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Request:
    """Whether the process was asked to stop, and by which signal."""

    signal_number: int | None = None


@contextmanager
def stop_request() -> Iterator[Request]:
    """Note the first Ctrl-C or SIGTERM instead of dying of it; a second one acts at once."""
    request = Request()
    former: dict[int, object] = {}

    def note(number: int, frame: FrameType | None) -> None:
        request.signal_number = number
        restore()

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    for number in (signal.SIGINT, signal.SIGTERM):
        former[number] = signal.getsignal(number)
        signal.signal(number, note)
    try:
        yield request
    finally:
        restore()
