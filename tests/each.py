"""One test for many choices: pytest's own work for thousands of tests would take longer than the tests."""

from collections.abc import Callable, Iterable
from typing import Any


def for_each(cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make one test of a check that takes a case, or a tuple's parts; a failure says which case it was."""
    known = list(cases)
    assert known

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            for case in known:
                try:
                    check(*case) if isinstance(case, tuple) else check(case)
                except Exception as error:
                    error.add_note(f"This was the case {case!r}.")
                    raise

        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return test

    return decorate
