"""The list of the stored studies, as a page beside theirs."""

from collections.abc import Sequence

from lab.report.formats import marked
from lab.report.grid import NONE
from lab.report.stored import Stored
from lab.report.stored_page import in_words

FILE = "README.md"

HEAD = """# Finished studies

Each study has a page with its tables, its claims and their verdicts, and a file with every number by seed, from
which `lab table`, `lab plot` and `lab report` draw with `--stored NAME`. `lab claims` is computed from these files.
All of it is written by `lab store STUDY`, this list too, and nothing by hand: tests make pages and verdicts anew
from the files. A verdict is about the scale of the runs, which stands beside it, and not about the paper's."""


def index(kept: Sequence[Stored]) -> str:
    """The page.

    Args:
        kept: the studies, in their order.
    """
    lines = ["| study | tier | what is asked | runs | hours | claims |", "| :-- | :-- | :-- | --: | --: | :-- |"]
    for one in kept:
        hours = NONE if one.hours is None else f"{one.hours:g}"
        question = marked(str(one.declared.get("question") or ""))
        cells = [
            f"[{marked(one.stem)}]({one.stem}.md)",
            one.tier or NONE,
            question,
            str(len(one.runs)),
            hours,
            in_words(one) or NONE,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return f"{HEAD}\n\n" + "\n".join(lines) + "\n"
