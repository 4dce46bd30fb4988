"""The argument RUN of commands that take one run, and words that a shell may complete to."""

from lab.commands._parser import Parser
from lab.runs.find import run_ids


class AnyOf(list[str]):
    """Words to complete to, none of which has to be taken."""

    def __contains__(self, word: object) -> bool:
        return True


def add_run(parser: Parser) -> None:
    """Take a run: ``options.run``, for ``lab.runs.find.find_run``."""
    parser.add_argument(
        "run",
        metavar="RUN",
        choices=None if Parser.completing is None else AnyOf(run_ids()),
        help="a run: its id, the beginning of its id, or its folder",
    )
