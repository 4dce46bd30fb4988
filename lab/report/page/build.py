"""The page: its parts in their order, with style, script and data inside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.report.grid import Grid
from lab.report.page import parts
from lab.report.page.claim_list import claim_list
from lab.report.page.curves import charted, read_series, series_of
from lab.report.page.library import library
from lab.report.page.spike_list import spikes
from lab.report.variants import Variant

_HERE = Path(__file__).parent

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""What a browser is told to hold the page to: it may ask for nothing."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a report is about."""

    title: str
    question: str
    """Empty where no study asks one."""
    declared: Mapping[str, Any] | None
    """A study's declaration; None where there is none."""
    variants: Sequence[Variant]
    grids: Sequence[Grid]
    folders: Mapping[str, Path]
    """By a run's id."""
    lines: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Metrics of runs that were stored, thinned, and have no folder; by id."""
    claims: Sequence[Mapping[str, Any]] = ()
    """Published claims about the rows, as a comparison has them."""
    absent: Sequence[str] = ()
    """Tables that are not in the report, and why: a line each."""
    notes: Sequence[str] = ()
    """What is missing."""


def build(page: Page) -> str:
    """The report.

    Raises:
        LabError: the package that draws is missing.
    """
    plotly = library()
    series = {run: read_series(folder) for run, folder in page.folders.items()}
    series |= {run: series_of(lines) for run, lines in page.lines.items()}
    body = "".join(f'<section class="{name}">{part}</section>' for name, part in _sections(page, series).items())
    curves = charted(page.variants, series)
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    script = "".join((_HERE / name).read_text(encoding="utf-8") for name in ("curves.js", "page.js"))
    title = parts.said(page.title)
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<title>{title}</title><link rel="icon" href="data:,"><style>{style}</style></head><body>',
            f"<main><header>{_head(page)}</header>{body}</main>",
            f'<script type="application/json" id="curves">{parts.embedded(curves)}</script>',
            f'<script type="text/plain" id="plotly">{plotly}</script>',
            f"<script>{script}</script></body></html>",
        ]
    )


def _head(page: Page) -> str:
    records = [record for variant in page.variants for record in variant.records]
    ended = sum(record.get("status") == "done" for record in records)
    count = f"{len(page.variants)} variants · {len(records)} runs, {ended} of them done"
    notes = "".join(f'<p class="note">{parts.said(note)}</p>' for note in page.notes)
    question = f'<p class="question">{parts.said(page.question)}</p>' if page.question else ""
    return f"<h1>{parts.said(page.title)}</h1>{question}<p>{count}</p>{notes}"


def _sections(page: Page, series: Mapping[str, Any]) -> dict[str, str]:
    records = [record for variant in page.variants for record in variant.records]
    found, total = spikes(page.variants, series, page.folders)
    if page.declared:
        told = parts.pairs(parts.protocol(page.declared))
    else:
        told = "<p>No study declared one: these runs were put together afterwards.</p>"
    absent = "".join(f'<p class="unit">{parts.said(line)}</p>' for line in page.absent)
    return {
        "protocol": f"<h2>Protocol</h2>{told}",
        "results": f"<h2>Results</h2>{''.join(map(parts.grid, page.grids))}{absent}",
        "claims": f"<h2>Claims</h2>{claim_list(page.claims, records)}",
        "curves": _charts(page.variants, series),
        "spikes": f"<h2>Spikes</h2>{parts.spike_list(found, total)}",
        "configurations": f"<h2>Configurations</h2>{parts.configurations(page.variants)}",
        "environment": f"<h2>Environment</h2>{parts.environments(records, page.folders)}",
    }


def _charts(variants: Sequence[Variant], series: Mapping[str, Any]) -> str:
    return _TOOLS + "".join(
        f'<div class="chart-block"><h3>{title}</h3><p class="unit">{unit}, mean over seeds; drag to zoom</p>'
        f'<div class="chart waiting" id="chart-{key}" role="img" aria-label="{title} over steps by variant" '
        f'aria-details="values-{key}"></div></div>{parts.values(key, title, variants, series)}'
        for key, (title, unit) in _TITLES.items()
    )


_TITLES = {
    "loss": ("Training loss", "nats per token of the batch"),
    "grad_norm": ("Gradient norm", "L2 norm before clipping"),
}

_TOOLS = """<h2>Curves</h2>
<fieldset class="variants"><legend>Variants</legend><div id="boxes"></div></fieldset>
<p class="tools"><button type="button" id="all">Show all</button><button type="button" id="none">Hide all</button>
<label><input type="checkbox" id="seeds"> single seeds</label>
<label><input type="checkbox" id="log"> logarithmic scale</label>
<button type="button" id="reset">Reset zoom</button>
<button type="button" id="save">Download all values (CSV)</button></p>
<p class="unit">Each stretch of a long curve is drawn by its least and its largest value, so that no spike is lost;
zooming in shows the rest.</p>
<noscript><p class="note">Curves are drawn by a script in this file, which this browser does not run.</p></noscript>
"""
