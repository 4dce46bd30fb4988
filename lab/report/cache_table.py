"""The table of KV caches: what each attention keeps of a token, and how quickly it reads and writes."""

import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from lab.report.grid import NONE

NAMES = {"preset": "\npreset", "attention": "\nattention"}
CACHE = {
    "published_bytes": "published B per\ntoken and layer",
    "published_share": "published\nof MHA",
    "published_tokens": "published\nat tokens",
    "bytes": "B per token\nand layer",
    "share": "\nof MHA",
    "measured_mib": "MiB at\n{batch} × {tokens:,}",
}
SPEED = {
    "prefill": "prefill\ntok/s",
    "decode": "decode\ntok/s",
    "uncached": "no cache\ntok/s",
    "decode_ms": "p50 / p95\nms",
    "peak_mib": "peak\nMiB",
    "kernel": "\nkernel",
}
HEADS = NAMES | CACHE | SPEED
"""Columns, of which those are shown that a row has; the headings have two lines, in Markdown one."""

FORMULA = (
    "B per token and layer: the cache in bf16 by the formula; of MHA: over 2 N H numbers, what MHA of the same "
    "heads keeps. A windowed layer keeps no more than its window."
)
MEASURED = "MiB: the tensors of all layers in bf16 after {tokens:,} tokens of {sequences}; {agreement}."
AGREED = "counted, and equal to the formula"
FAILED = "where it fails, the tensors are not what the formula says"
PUBLISHED = (
    "published: the same at the preset's published sizes and its context of so many tokens; nothing is run there."
)
TIMES = (
    "tok/s of {sequences}, medians{quartiles}: prefill of {tokens:,} tokens (n ≥ {prefill}), decode after a prompt "
    "of {prompt:,} (n ≥ {decode}) from a cache and, without one, by a forward over everything before "
    "(n ≥ {uncached}). Half of the times are within {spread:.0f} % of their median."
)
PEAK = "ms: of a decoded token. peak: {held} as the last token is decoded."
ALLOCATED = "the most that PyTorch's allocator gave out"
TENSORS = "the most that tensors (weights, cache, work) held at once"
SIZES = "{dim} wide, {n_layers} layers, {heads}; context {tokens:,}, batch {batch}"
MACHINE = "; {device} {precision}, {threads} threads"


def as_text(facts: Mapping[str, Any], width: int) -> str:
    """A table for a terminal, and what its columns mean; two tables where one would be too wide."""
    columns = _columns(facts["rows"])
    cache, speed = ([key for key in columns if key in NAMES | part] for part in (CACHE, SPEED))
    blocks = [_table(facts, columns)]
    if max(map(len, blocks[0].splitlines())) > width and columns != cache:
        blocks = [_table(facts, cache), _table(facts, speed)]
    legend = [textwrap.fill(entry, width, break_long_words=False) for entry in _legend(facts, "")]
    return "\n\n".join([*blocks, "\n".join(legend)])


def as_markdown(facts: Mapping[str, Any]) -> str:
    """One table, the quartiles in it, and what its columns mean."""
    columns = _columns(facts["rows"])
    heads = [HEADS[key].format(**facts).strip().replace("\n", " ") for key in columns]
    lines = [f"| {' | '.join(heads)} |", "|" + "".join("---|" if key in NAMES else "---:|" for key in columns)]
    for row in facts["rows"]:
        lines.append(f"| {' | '.join(_cell(key, row, quartiles=True) for key in columns)} |")
    return "\n".join([*lines, "", *(f"- {entry}" for entry in _legend(facts, " [quartiles]"))])


def disagreeing(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows whose tensors are not what the formula says: they fail."""
    return [row for row in facts["rows"] if row["measured_bytes"] != row["bytes"]]


def _table(facts: Mapping[str, Any], columns: Sequence[str]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for key in columns:
        words = key in NAMES or key == "kernel"
        head = Text(HEADS[key].format(**facts))
        table.add_column(head, justify="left" if words else "right", no_wrap=True)
    for row in facts["rows"]:
        table.add_row(*(Text(_cell(key, row)) for key in columns))
    out = io.StringIO()
    # Rows are never broken.
    Console(file=out, width=1000, color_system=None, force_terminal=False, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [key for key in HEADS if any(row.get(key) is not None for row in rows)]


def _cell(key: str, row: Mapping[str, Any], *, quartiles: bool = False) -> str:
    value = row.get(key)
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    if key == "decode_ms":
        return " / ".join(digits(value[name]) for name in ("p50", "p95"))
    if key in SPEED and isinstance(value, Mapping):
        low, high = map(digits, value["quartiles"])
        return digits(value["tokens_per_s"]) + (f" [{low}–{high}]" if quartiles else "")
    if key.endswith("share"):
        return f"{100 * value:.1f} %"
    if key == "measured_mib" and row["measured_bytes"] != row["bytes"]:
        return f"{digits(value)} fails"
    return f"{value:,.0f}" if float(value).is_integer() and not key.endswith("mib") else digits(value)


def digits(value: float) -> str:
    """A number with at least three digits that count."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"


def _legend(facts: Mapping[str, Any], quartiles: str) -> list[str]:
    columns, rows = _columns(facts["rows"]), facts["rows"]
    sequences = "one sequence" if facts["batch"] == 1 else f"{facts['batch']} sequences together"
    entries = [
        FORMULA,
        MEASURED.format(**facts, sequences=sequences, agreement=FAILED if disagreeing(facts) else AGREED),
    ]
    if "published_bytes" in columns:
        entries.append(PUBLISHED)
    timed = "decode" in columns
    if timed:
        paces = {kind: [row[kind] for row in rows] for kind in ("prefill", "decode", "uncached")}
        fewest = {kind: min(pace["steps"] for pace in found) for kind, found in paces.items()}
        most = max(spread(pace) for found in paces.values() for pace in found)
        entries.append(
            TIMES.format(
                **facts,
                **fewest,
                sequences=sequences,
                quartiles=quartiles,
                spread=most,
                prompt=facts["tokens"] - facts["steps"],
            )
        )
        entries.append(PEAK.format(held=ALLOCATED if facts["device"] == "cuda" else TENSORS))
    heads = " or ".join(dict.fromkeys(f"{row['n_heads']} heads of {row['head_dim']}" for row in rows))
    return [*entries, (SIZES + MACHINE * timed).format(**facts, heads=heads)]


def spread(pace: Mapping[str, Any]) -> float:
    """Percent of the median that times at the quartiles are off."""
    low, high = pace["quartiles"]
    median = pace["tokens_per_s"]
    return float(100 * max(median / low - 1, 1 - median / high))
