"""The table of KV caches: what each attention keeps of a token, and how quickly it reads and writes."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

HEADS = {
    "preset": "preset",
    "attention": "attention",
    "published_bytes": "published B",
    "published_share": "of MHA",
    "published_tokens": "at tokens",
    "bytes": "bytes",
    "measured_bytes": "measured",
    "share": "of MHA",
    "prefill_tokens_per_s": "prefill tok/s",
    "decode_tokens_per_s": "decode tok/s",
    "uncached_tokens_per_s": "without cache",
}
"""Columns, of which those are shown that a row has."""

LEGEND = (
    "bytes: the cache of a token and layer in bf16, by the formula; measured: the tensors after {tokens:,} tokens\n"
    "of MHA: over 2 N H numbers, what MHA of the same heads keeps; a windowed layer keeps no more than its window\n"
    "sizes: {dim} wide, {n_layers} layers, {heads}"
)
PUBLISHED = (
    "published: the same at the preset's published sizes and its context of so many tokens; nothing is run there"
)
SPEED = (
    "tok/s: one sequence, medians; prefill of {tokens:,} tokens, decode of the last {steps} of them one at a time, "
    "with the cache and\nby a forward over everything; {device} {precision}, {threads} threads"
)


def as_text(facts: Mapping[str, Any], width: int) -> str:
    """A table for a terminal, and what its columns mean."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    columns = _columns(facts["rows"])
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for key in columns:
        table.add_column(HEADS[key], justify="left" if key in ("preset", "attention") else "right")
    for row in facts["rows"]:
        table.add_row(*(_cell(key, row[key]) for key in columns))
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, force_terminal=False, legacy_windows=False).print(table)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join([*lines, "", *_legend(facts)])


def as_markdown(facts: Mapping[str, Any]) -> str:
    """One table, and what its columns mean."""
    columns = _columns(facts["rows"])
    rule = "".join("---|" if key in ("preset", "attention") else "---:|" for key in columns)
    lines = [f"| {' | '.join(HEADS[key] for key in columns)} |", f"|{rule}"]
    for row in facts["rows"]:
        lines.append(f"| {' | '.join(_cell(key, row[key]) for key in columns)} |")
    return "\n".join([*lines, "", *(f"{line}  " for line in _legend(facts))]).rstrip()


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [key for key in HEADS if any(row.get(key) is not None for row in rows)]


def _cell(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "–"
    if key.endswith("share"):
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if float(value).is_integer() or value >= 1000 else f"{value:,.1f}"


def _legend(facts: Mapping[str, Any]) -> list[str]:
    columns = _columns(facts["rows"])
    heads = dict.fromkeys(f"{row['n_heads']} heads of {row['head_dim']}" for row in facts["rows"])
    parts = [LEGEND.format(**facts, heads=" or ".join(heads))]
    if "published_bytes" in columns:
        parts.append(PUBLISHED)
    if "decode_tokens_per_s" in columns:
        parts.append(SPEED.format(**facts))
    return "\n".join(parts).splitlines()
