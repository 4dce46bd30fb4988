"""Published claims as a section of their own: what was said, at which scale, what these runs measured."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.report.claims_grid import measured_by, number_said
from lab.report.notes import si
from lab.report.page import parts
from lab.report.rows import within
from lab.report.variants import Record, config_of

NO_CLAIMS = "No row differs from the baseline in one choice alone that a paper in the list of claims is about."


def claim_list(claims: Sequence[Mapping[str, Any]], records: Sequence[Record]) -> str:
    """Each claim once, and under it the rows that it is about.

    Args:
        claims: as ``Comparison.claims`` has them.
        records: the runs, whose scale is told beside the published one.
    """
    if not claims:
        return f"<p>{NO_CLAIMS}</p>"
    ours = scale(records)
    by_id: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in claims:
        by_id.setdefault((str(one["claim"]), str(one.get("metric"))), []).append(one)
    told = '<p class="unit">A verdict is about the scale of these runs alone, not about the paper\'s.</p>'
    return told + "".join(_claim(group, ours) for group in by_id.values())


def scale(records: Sequence[Record]) -> str:
    """The size of these runs in words."""
    return ", ".join(_pieces(records))


def _pieces(records: Sequence[Record]) -> Iterator[str]:
    sizes = _numbers(records, "parameters", "total")
    if sizes:
        yield f"{_span(sizes)} parameters"
    yield "decoder-only language model"
    data = dict.fromkeys(str(data.get("name")) for run in records if isinstance(data := _data(run), Mapping))
    if data:
        yield " or ".join(data)
    tokens = _numbers(records, "tokens")
    if tokens:
        yield f"{_span(tokens)} tokens a run"


def _data(record: Record) -> object:
    return config_of(record).get("data")


def _numbers(records: Sequence[Record], *keys: str) -> list[float]:
    return [float(value) for run in records if (value := within(run, *keys)) is not None]


def _span(values: Sequence[float]) -> str:
    low, high = si(min(values)), si(max(values))
    return low if low == high else f"{low} to {high}"


def _claim(group: Sequence[Mapping[str, Any]], ours: str) -> str:
    first = group[0]
    heads = ("row or pair", "published Δ", "measured Δ", "seeds", "p Holm", "MDE", "verdict")
    rows = [
        (
            one["variant"],
            one["published"],
            _measured(one.get("measured") or {}),
            (one.get("measured") or {}).get("n") or "–",
            _p((one.get("measured") or {}).get("p")),
            _mde((one.get("measured") or {}).get("mde")),
            one.get("verdict") or ("no verdict" if one.get("metric") else "figures alone, no claim"),
        )
        for one in group
    ]
    facts = {"Published": f"{first['source']}: {first['scale']}", "Here": ours, "Caveat": first.get("caveat")}
    own = {"Verdict": first.get("overall"), "Measured": measured_by(first) if first.get("metric") else None}
    facts = own | facts if first.get("metric") else facts
    lines = "".join(f"<p>{name}: {parts.said(text)}</p>" for name, text in facts.items() if text)
    dagger = '<p class="unit">† told by others, not read in the paper</p>' if first.get("told") else ""
    return (
        f'<article class="claim"><h3>{parts.said(first["statement"])}</h3><div class="unit">{lines}</div>'
        f"{parts.table(heads, rows, str(first['claim']))}{dagger}</article>"
    )


def _measured(found: Mapping[str, Any]) -> str:
    if found.get("mean") is None:
        return "–"
    interval = found.get("interval")
    said = number_said(found["mean"])
    return said + (f" [{number_said(interval[0])}, {number_said(interval[1])}]" if interval else "")


def _mde(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _p(value: float | None) -> str:
    return "–" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"
