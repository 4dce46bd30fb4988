"""An argparse parser that answers a mistake with one line, the nearest right word, and exit status 2."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NoReturn

from lab.errors import did_you_mean, one_line


class Candidates(Exception):  # noqa: N818
    """The answer to a shell that asks how a word could go on."""

    def __init__(self, words: list[str], *, overrides: bool = False) -> None:
        super().__init__(words)
        self.words = words
        self.overrides = overrides  # whether an override could stand there too


class Parser(argparse.ArgumentParser):
    """``argparse.ArgumentParser`` without abbreviations and without the usage text above an error.

    Its subparsers are of this class too. ``--help`` is argparse's own.
    """

    completing: ClassVar[str | None] = None
    """The word a shell asks about; then parsing raises ``Candidates`` instead."""

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
        self._complete(args)
        known, rest = self.parse_known_args(args, namespace)
        if rest:
            self._refuse(rest[0])
        return known

    def parse_with_overrides(self, args: Sequence[str]) -> Any:
        """Parse options, and ``overrides`` before, between and after them; the first unknown option is an error."""
        self._complete(args)
        known, rest = self.parse_known_args(args)
        for word in rest:
            if word.startswith("-"):
                self._refuse(word)
        known.overrides += rest
        return known

    def _refuse(self, word: str) -> NoReturn:
        name = word.partition("=")[0]
        near = did_you_mean(name, sorted(set(self._options()))) if name.startswith("-") else ""
        self.error(f"'{word}' is not an option or argument here{near}")

    def _complete(self, args: Sequence[str] | None) -> None:
        """Answer what could follow instead of parsing, where a shell asks for it.

        Raises:
            Candidates: ``completing`` is set.
        """
        if Parser.completing is None:
            return
        word, parser, waiting = Parser.completing, self, None
        for given in args or []:
            menus = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
            option = parser._option_string_actions.get(given)
            waiting = option if option and option.nargs is None and waiting is None else None
            if menus and isinstance(menus[0].get(given), Parser):
                parser = menus[0][given]
        raise parser._candidates(word, waiting)

    def _candidates(self, word: str, waiting: argparse.Action | None) -> "Candidates":
        """What could stand for ``word``, after an option that waits for its value or not."""
        name, equals, _ = word.partition("=")
        if waiting is not None:
            return Candidates([str(choice) for choice in waiting.choices or ()])
        if word.startswith("-") and equals:
            option = self._option_string_actions.get(name)
            return Candidates([f"{name}={choice}" for choice in (option and option.choices) or ()])
        if word.startswith("-"):
            return Candidates([option for option in self._option_string_actions if option.startswith("--")])
        positional = [action for action in self._actions if not action.option_strings]
        listed = [str(choice) for action in positional for choice in action.choices or ()]
        return Candidates(listed, overrides=any(action.dest == "overrides" for action in positional))

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
        return max(action.option_strings, key=len)
    return str(action.metavar or action.dest)
