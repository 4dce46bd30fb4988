"""Names of the parts of a step, for who measures them; where nobody does, a name costs nothing."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

Mark = Callable[[str], AbstractContextManager[object]]
"""What is entered when a part of this name begins, and left when it ends."""

_mark: Mark | None = None


def part(name: str) -> AbstractContextManager[object]:
    """The context in which a part of the step is computed."""
    return nullcontext() if _mark is None else _mark(name)


@contextmanager
def heard(mark: Mark) -> Iterator[None]:
    """Have ``mark`` told of every part."""
    global _mark
    before, _mark = _mark, mark
    try:
        yield
    finally:
        _mark = before
