"""A table in a format: text for a terminal, Markdown, LaTeX with booktabs, HTML, CSV with a record a seed, JSON."""

import csv
import html
import io
import json
import re
from collections.abc import Callable, Sequence

from lab.report.grid import Grid
from lab.report.panels import headers, panels, text

PAGE = 88
"""Characters of a cell that a panel of a LaTeX table holds: as many as fit a page in its small type."""

_LATEX = {
    "\\": r"\textbackslash{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "ρ": r"$\rho$",
    "η": r"$\eta$",
    "σ": r"$\sigma$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "−": r"$-$",
    "–": "--",
    "…": r"\ldots{}",
    "²": r"$^2$",
    "√": r"$\surd$",
    "→": r"$\to$",
    "∞": r"$\infty$",
    "[": "{[}",
    "]": "{]}",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
    "’": "'",
}
"""What LaTeX would not print as it stands."""


def markdown(grid: Grid) -> str:
    """A pipe table as GitHub reads it; what could be markup is escaped."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(map(marked, cells))} |"

    lines: list[str] = []
    for block in grid.blocks:
        rule = "|".join(" :-- " if column.left else " --: " for column in block.columns)
        lines += [*([""] if lines else []), f"**{marked(block.title)}**", ""]
        lines += [line([_flat(c.header) for c in block.columns]), f"|{rule}|", *map(line, block.rows)]
    return "\n".join([*lines, *(part for note in grid.notes for part in ("", marked(note)))])


def latex(grid: Grid) -> str:
    r"""A ``table*`` a block for ``\usepackage{booktabs}``, in panels as wide as a page; notes below the first."""
    lines = ["% needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}"]
    for block in grid.blocks:
        lines += [r"\begin{table*}", r"\centering", r"\scriptsize", r"\setlength{\tabcolsep}{3pt}"]
        lines.append(f"\\caption{{{tex(block.title)}}}")
        for panel in panels(block, PAGE):
            lines += [r"\par\medskip", *_tabular(block, [0, *panel])]
        if block.notes and block is grid:
            notes = " \\\\\n".join(map(tex, block.notes))
            lines += [r"\par\smallskip", r"\begin{minipage}{\linewidth}", notes, r"\end{minipage}"]
        lines.append(r"\end{table*}")
    return "\n".join(lines)


def _tabular(grid: Grid, shown: Sequence[int]) -> list[str]:
    """Some columns of a grid."""

    def line(cells: Sequence[str]) -> str:
        return f"{' & '.join(map(tex, cells))} \\\\"

    columns = [grid.columns[n] for n in shown]
    return [
        f"\\begin{{tabular}}{{{''.join('l' if column.left else 'r' for column in columns)}}}",
        r"\toprule",
        *map(line, headers(columns)),
        r"\midrule",
        *(line([row[n] for n in shown]) for row in grid.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]


def as_html(grid: Grid) -> str:
    """A ``table`` element a block, to stand in a page."""
    lines = ["<figure>", *(line for block in grid.blocks for line in _table(block))]
    if grid.notes:
        lines.append(f"<figcaption>{'<br>'.join(map(html.escape, grid.notes))}</figcaption>")
    return "\n".join([*lines, "</figure>"])


def _table(grid: Grid) -> list[str]:
    def cells(tag: str, values: Sequence[str]) -> str:
        parts = []
        for column, value in zip(grid.columns, values, strict=True):
            side = ' class="left"' if column.left else ""
            whole = value if column.left or tag == "th" else value.replace(" ", "\u00a0")  # a number is not broken
            parts.append(f"<{tag}{side}>{html.escape(whole)}</{tag}>")
        return f"<tr>{''.join(parts)}</tr>"

    head = cells("th", [_flat(column.header) for column in grid.columns]).replace("<th", '<th scope="col"')
    lines = ["<table>", f"<caption>{html.escape(grid.title)}</caption>", f"<thead>{head}</thead>"]
    return [*lines, "<tbody>", *(cells("td", row) for row in grid.rows), "</tbody>", "</table>"]


def as_csv(grid: Grid) -> str:
    """One record a variant and seed; the cells of the table where it has no values by seed."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n")
    if grid.per_seed:
        write.writerow(grid.per_seed[0])
        write.writerows(record.values() for record in grid.per_seed)
    else:
        write.writerow([_flat(column.header) for column in grid.columns])
        write.writerows(grid.rows)
    return out.getvalue().removesuffix("\n")


def as_json(grid: Grid) -> str:
    """Strict JSON: every number, with the values of each seed."""
    value = {"title": grid.title, **grid.data, "per_seed": list(grid.per_seed), "notes": list(grid.notes)}
    return json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)


FORMATS: dict[str, Callable[[Grid], str]] = {
    "text": text,
    "markdown": markdown,
    "latex": latex,
    "html": as_html,
    "csv": as_csv,
    "json": as_json,
}
"""By the value of ``--format``."""


def tex(words: str) -> str:
    """Words as LaTeX prints them; a letter that the font of a plain document lacks becomes a question mark."""
    words = re.sub(r"(?<![^\s\[(])-(?=\d)", "−", words)
    return "".join(_LATEX.get(c) or (c if c.isascii() and c.isprintable() else _accented(c)) for c in words)


def _accented(mark: str) -> str:
    """Latin letters as they are, since LaTeX reads UTF-8; blanks for what is not printed."""
    if "À" <= mark <= "ž" and mark.isalpha():
        return mark
    return " " if mark.isspace() else "?"


def _flat(header: str) -> str:
    """A header in one line: ``bits/`` over ``byte`` is one word."""
    return re.sub(r"/\n", "/", header).replace("\n", " ").strip()


def marked(words: str) -> str:
    """Words as Markdown prints them, in one line."""
    return re.sub(r"([\\`*_\[\]<>|#~$&])", r"\\\1", words.replace("\n", " "))
