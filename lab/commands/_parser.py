"""An argparse parser that answers a mistake with one line, the nearest right word, and exit status 2."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from lab.errors import did_you_mean, one_line


class Parser(argparse.ArgumentParser):
    """``argparse.ArgumentParser`` without abbreviations and without the usage text above an error.

    Its subparsers are of this class too. ``--help`` is argparse's own.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Print ``prog: message`` on standard error and exit with status 2."""
        line = one_line(message).removeprefix("argument ")
        missing = line.removeprefix("the following arguments are required: ")
        if missing != line:
            line = f"{missing} is missing{self._allowed(missing)}"
        self.exit(2, f"{self.prog}: {line}\n")

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse all arguments; the first one that no action takes is an error that names it."""
        known, rest = self.parse_known_args(args, namespace)
        if rest:
            word = rest[0].partition("=")[0]
            options = sorted(set(self._options()))
            near = did_you_mean(word, options) if word.startswith("-") else ""
            self.error(f"'{rest[0]}' is not an option or argument here{near}")
        return known

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        near = did_you_mean(str(value), known)
        self.error(f"{_label(action)} '{value}' is not one of {', '.join(known)}{near}")

    def _allowed(self, label: str) -> str:
        """``": one of a, b"`` for the action of this label, if it has choices."""
        for action in self._actions:
            if action.choices is not None and _label(action) == label:
                return f": one of {', '.join(str(choice) for choice in action.choices)}"
        return ""

    def _options(self) -> Iterator[str]:
        """All option strings, those of the subcommands included."""
        for action in self._actions:
            yield from action.option_strings
            if isinstance(action.choices, dict):
                for parser in action.choices.values():
                    if isinstance(parser, Parser):
                        yield from parser._options()


def _label(action: argparse.Action) -> str:
    """What the user calls this action: its long option, else its metavar or its destination."""
    if action.option_strings:
        return action.option_strings[-1]
    return str(action.metavar or action.dest)
