"""Rows to text: one row a variant, legible in a terminal, a pipe and a paper draft."""

from lab.report.comparison import Comparison
from lab.report.main_table import table
from lab.report.panels import text


def as_text(comparison: Comparison, *, width: int | None = None) -> str:
    """Table A as text.

    Args:
        comparison: the variants, at least one.
        width: columns of the terminal; None, as for a file or a pipe: as wide as it is.
    """
    return text(table(comparison), width=width)
