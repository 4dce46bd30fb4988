"""Table D: what the KV cache of each variant takes, how quickly it is filled and read, and the loss beside it."""

from collections.abc import Iterator, Mapping
from typing import Any

from lab.report.cache_table import AGREED, ALLOCATED, FAILED, TENSORS, digits, spread
from lab.report.comparison import Comparison
from lab.report.grid import NONE, Column, Grid
from lab.report.main_table import effect_columns
from lab.report.notes import reasons, warnings

FACTS = ("attention", "precision", "kernel", "bytes", "share", "measured_bytes", "measured_mib", "times_baseline")
"""What is known of a variant beside its times, as CSV has it."""

BYTES = (
    "KV B/token/layer: the cache in bf16 by the formula of its attention; a windowed layer keeps no more than its "
    "window. MiB: the tensors of all layers in bf16 after {context:,} tokens of {sequences}; {agreement}."
)
TIMES = (
    "tok/s of {sequences}, medians{quartiles}: prefill of {context:,} tokens (n ≥ {prefill}), decode from a cache "
    "after a prompt of {prompt:,} (n ≥ {decode}); half of the times are within {spread:.0f} % of their median. ms: "
    "of a decoded token. Peak: {held} as the last token is decoded."
)
PLACE = (
    "Measured on this machine with initial weights: {device}, threads {threads}, batch {batch}, context {context:,}"
    ", prompt {prompt:,}"
)
TRAINED = "trained with {trained}: what is a share of the context, such as some windows, follows this one"


def throughput(made: Comparison, facts: Mapping[str, Any], *, quartiles: bool = True) -> Grid:
    """The grid; variants in the order of the comparison.

    Args:
        made: finished runs; the first variant is the baseline.
        facts: what was measured of them: ``rows`` in the same order, and ``batch``, ``context``, ``prompt``,
            ``device``, ``threads``, ``trained_contexts``.
        quartiles: whether times have theirs beside them.
    """
    rows = _against_first(facts["rows"])
    heads = ["\nvariant", "KV B/token/\nlayer (formula)", _measured_head(facts), "×\nbaseline"]
    heads += ["prefill\ntok/s", "decode\ntok/s", "p50 / p95\nms", "peak\nMiB", "kernel,\ndtype", "final\nloss"]
    bodies = [_cells(row, quartiles) for row in rows]
    for cells, row in zip(bodies, made.rows, strict=True):
        sd = "" if row.final_loss_sd is None else f" ± {row.final_loss_sd:.4f}"
        cells.append(NONE if row.final_loss is None else f"{row.final_loss:.4f}{sd}")
    if made.effects is not None:
        difference, column = next(iter(effect_columns(made.effects, {}).items()))
        heads.append(difference)
        for cells, row in zip(bodies, made.rows, strict=True):
            cells.append(column.get(row.variant, NONE))
    return Grid(
        title="KV cache and throughput",
        columns=[Column(header=head, left=head.endswith(("variant", "dtype"))) for head in heads],
        rows=bodies,
        notes=[*_notes(facts, rows, quartiles), *_about(made)],
        data={"throughput": {**facts, "rows": rows}, **made.data()},
        per_seed=[*_per_seed(made, rows)],
    )


def _against_first(rows: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with how often the first row's cache they take."""
    base = rows[0].get("measured_mib") if rows else None
    return [
        {**row, "times_baseline": row["measured_mib"] / base if base and "bytes" in row else None} for row in rows
    ]


def fails(row: Mapping[str, Any]) -> bool:
    """Whether a row's tensors are not what its formula says."""
    return row.get("measured_bytes") != row.get("bytes")


def _measured_head(facts: Mapping[str, Any]) -> str:
    context = NONE if facts["context"] is None else f"{facts['context']:,}"
    return f"measured MiB\nat {facts['batch']} × {context}"


def _cells(row: Mapping[str, Any], quartiles: bool) -> list[str]:
    if "bytes" not in row:
        return [row["variant"], *(["n/a"] * 8)]
    times = row["times_baseline"]
    held = digits(row["measured_mib"]) + (" fails" if fails(row) else "")
    size = f"{row['bytes']:,.0f}" if float(row["bytes"]).is_integer() else digits(row["bytes"])
    return [
        row["variant"],
        size,
        held,
        NONE if times is None else digits(times),
        *(_pace(row[kind], quartiles) for kind in ("prefill", "decode")),
        " / ".join(digits(row["decode_ms"][name]) for name in ("p50", "p95")),
        digits(row["peak_mib"]),
        row["kernel"],
    ]


def _pace(pace: Mapping[str, Any], quartiles: bool) -> str:
    low, high = map(digits, pace["quartiles"])
    return digits(pace["tokens_per_s"]) + (f" [{low}–{high}]" if quartiles else "")


def _notes(facts: Mapping[str, Any], rows: list[dict[str, Any]], quartiles: bool) -> Iterator[str]:
    """How it was measured, and why some rows were not."""
    known = [row for row in rows if "bytes" in row]
    if known:
        sequences = "one sequence" if facts["batch"] == 1 else f"{facts['batch']} sequences together"
        paces = {kind: [row[kind] for row in known] for kind in ("prefill", "decode")}
        said = {
            **facts,
            **{kind: min(pace["steps"] for pace in found) for kind, found in paces.items()},
            "sequences": sequences,
        }
        yield BYTES.format(**said, agreement=FAILED if any(map(fails, known)) else AGREED)
        yield TIMES.format(
            **said,
            quartiles=" [quartiles]" if quartiles else "",
            spread=max(spread(pace) for found in paces.values() for pace in found),
            held=ALLOCATED if facts["device"] == "cuda" else TENSORS,
        )
        yield "; ".join([PLACE.format(**facts), *_elsewhere(facts)]) + "."
    yield from (f"n/a {row['variant']}: {row['reason']}" for row in rows if "bytes" not in row)


def _elsewhere(facts: Mapping[str, Any]) -> Iterator[str]:
    """That the runs were trained with another context, where they were."""
    if facts["trained_contexts"] != [facts["context"]]:
        yield TRAINED.format(trained=", ".join(f"{length:,}" for length in facts["trained_contexts"]))


def _about(made: Comparison) -> Iterator[str]:
    """What stands below every table of losses."""
    for pieces in made.notes():
        yield " · ".join(piece for piece in pieces if not piece.startswith("spikes "))  # there are none here
    yield from reasons(made.records)
    yield from (f"warning: {line}" for line in warnings(made.records, made.rows))


def _per_seed(made: Comparison, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A record a seed, with what was measured of its variant."""
    by_variant = {row["variant"]: row for row in rows}
    for line in made.per_seed():
        row = by_variant[line["variant"]]
        found = {key: row.get(key) for key in FACTS} | {"peak_mib": row.get("peak_mib")}
        for kind in ("prefill", "decode"):
            pace = row.get(kind) or {}
            low, high = pace.get("quartiles") or (None, None)
            found |= {f"{kind}_tok_s": pace.get("tokens_per_s"), f"{kind}_q1": low, f"{kind}_q3": high}
            found[f"{kind}_steps"] = pace.get("steps")
        for name in ("p50", "p95"):
            found[f"decode_ms_{name}"] = (row.get("decode_ms") or {}).get(name)
        yield line | found
