"""The parts of the page as HTML; every name and text is escaped."""

import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lab.report.formats import as_csv, as_html, as_json
from lab.report.grid import NONE, Grid
from lab.report.page.curves import Series, mean, sampled
from lab.report.page.spike_list import MOST, Spike
from lab.report.rows import one_a_seed
from lab.report.variants import Record, Variant, config_of, show
from lab.stats.spikes import LOCAL


def said(text: object) -> str:
    """Text as it stands."""
    return html.escape(str(text))


def pairs(items: Iterable[tuple[object, object]]) -> str:
    """A list of names and what they are."""
    return f"<dl>{''.join(f'<div><dt>{said(k)}</dt><dd>{said(v)}</dd></div>' for k, v in items)}</dl>"


def embedded(value: Any) -> str:
    """JSON that may stand inside ``script``: no character in it can end the element or begin a comment."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def scrolling(inner: str, label: str) -> str:
    """A wide thing that scrolls by itself, by keyboard too."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{said(label)}">{inner}</div>'


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], label: str) -> str:
    """A table of text."""
    head = "".join(f'<th scope="col">{said(h)}</th>' for h in heads)
    body = "".join(f"<tr>{''.join(f'<td>{said(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return scrolling(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", label)


def grid(one: Grid) -> str:
    """A table of results, with links to its numbers."""
    name = "-".join("".join(c if c.isalnum() else " " for c in one.title.lower()).split()) or "table"
    figure = _TABLE.sub(lambda found: scrolling(_held(found[0]), one.title), as_html(one))
    return figure + _download(name, {"CSV": as_csv(one), "JSON": as_json(one)})


def _held(one: str) -> str:
    """With a caption that stays where it is while the table scrolls."""
    return one.replace("<caption>", "<caption><span>", 1).replace("</caption>", "</span></caption>", 1)


_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)


def values(key: str, title: str, variants: Sequence[Variant], series: Mapping[str, Mapping[str, Series]]) -> str:
    """Some points of each variant's mean as a table, for who cannot see the chart."""
    rows, steps = [], dict[int, None]()
    for variant in variants:
        seeds = [
            each for run in one_a_seed(variant.records) if (each := series.get(str(run.get("id")), {}).get(key))
        ]
        points = dict(sampled(mean(seeds))) if seeds else {}
        steps |= dict.fromkeys(points)
        rows.append((variant.label, points))
    ordered = sorted(steps)
    body = [(name, *(_number(points.get(step), ".4g") for step in ordered)) for name, points in rows]
    inner = table(("variant", *(f"step {step}" for step in ordered)), body, f"{title} at some steps")
    return f'<details id="values-{key}"><summary>{title} at some steps, as a table</summary>{inner}</details>'


def spike_list(found: Sequence[Spike], total: int) -> str:
    """A table of spikes, each with the text of its batch to open."""
    if not total:
        return f"<p>No step of any run is a spike by <code>{LOCAL}</code>.</p>"
    first = f" The first {MOST} are listed." if total > len(found) else ""
    head = "".join(f'<th scope="col">{name}</th>' for name in _SPIKE_HEADS)
    rows = "".join(map(_spike, found))
    wide = scrolling(f'<table class="spikes"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>', "Spikes")
    count = f"{total} flagged step{'' if total == 1 else 's'} by <code>{LOCAL}</code>"
    about = "of the loss, and of the logarithm of the gradient norm before clipping"
    told = (
        '<p class="unit">Loss and gradient norm: of the step before → of this one, both of the batch of that step '
        "before its update. Height: robust standard deviations above the line through the steps before. Largest "
        "layer: the one with the largest gradient norm, where track.layers is set.</p>"
    )
    return f"<p>{count}, {about}.{first}</p>{told}{wide}"


_SPIKE_HEADS = (
    "variant",
    "run",
    "seed",
    "step",
    "series",
    "height",
    "LR",
    "loss",
    "gradient norm",
    "largest layer",
    "batch",
)


def _spike(one: Spike) -> str:
    cells = [
        one.variant,
        one.run,
        one.seed,
        one.step,
        one.series,
        _number(one.above, ".1f"),
        _number(one.lr, ".3g"),
    ]
    cells += [" → ".join(_number(value, ".4g") for value in pair) for pair in one.around.values()]
    cells.append(one.layer or NONE)
    texts = "".join(f"<pre>{said(text)}</pre>" for text in one.texts)
    label = f"Batch of step {one.step}, run {said(one.run)}"
    if one.missing:
        batch = f"<small>{said(one.missing)}</small>"
    else:
        some = f"{len(one.texts)} of {one.sequences}" if one.sequences > len(one.texts) else f"{one.sequences}"
        opener = f'<summary aria-label="{label}">text: {some} sequence{"s" * (one.sequences > 1)}</summary>'
        inner = f'<div tabindex="0" role="region" aria-label="{label}">{texts}</div>'
        batch = f'<details class="batch">{opener}{inner}</details>'
    return f"<tr>{''.join(f'<td>{said(cell)}</td>' for cell in cells)}<td>{batch}</td></tr>"


def _number(value: float | None, form: str) -> str:
    """A dash where there is none, and words where it is not finite."""
    if value is None:
        return NONE
    return format(value, form) if math.isfinite(value) else "not finite"


def protocol(declared: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a study declared, but for its question and its variants."""
    kept = {k: v for k, v in declared.items() if k not in ("name", "question", "variants", "baseline", "tiers")}
    return [(key, value) for key, value in leaves(kept) if value not in ("null", "none", "", "{}")]


def configurations(variants: Sequence[Variant]) -> str:
    """What sets the variants apart, and below it what all runs share."""
    by_run = [dict(leaves(config_of(run))) for variant in variants for run in variant.records]
    keys = list(dict.fromkeys(key for one in by_run for key in one))
    shared = [key for key in keys if len({one.get(key) for one in by_run}) == 1]
    differing = [key for key in keys if key not in shared]
    parts = []
    if differing:
        rows = [(variant.label, *_values(variant, differing)) for variant in variants]
        lines: list[Sequence[str]] = [("variant", *differing), *rows]
        if len(differing) > len(variants):
            lines = [("setting", *(row[0] for row in rows)), *list(zip(*lines, strict=True))[1:]]
        parts.append(table(lines[0], lines[1:], "Settings that differ"))
    same = pairs((key, by_run[0][key]) for key in shared)
    parts.append(f"<details><summary>What all runs share: {len(shared)} settings</summary>{same}</details>")
    return "".join(parts) + _download("configurations", {"JSON": _configs(variants)})


def _configs(variants: Sequence[Variant]) -> str:
    """Of each variant its runs and the configuration of the first, whole."""
    found = [
        {"variant": v.label, "runs": [run.get("id") for run in v.records], "config": config_of(v.records[0])}
        for v in variants
        if v.records
    ]
    return json.dumps(found, ensure_ascii=False)


def _download(name: str, texts: Mapping[str, str]) -> str:
    """Links to files that the page itself holds, by kind."""
    mimes = {"CSV": "text/csv", "JSON": "application/json"}
    links = (
        f'<a download="{name}.{kind.lower()}" href="data:{mimes[kind]};charset=utf-8,{quote(text)}">{kind}</a>'
        for kind, text in texts.items()
    )
    return f'<p class="download">Download {name}: {" ".join(links)}</p>'


def _values(variant: Variant, keys: Sequence[str]) -> Iterator[str]:
    found = [dict(leaves(config_of(run))) for run in variant.records]
    for key in keys:
        yield ", ".join(dict.fromkeys(one.get(key, NONE) for one in found)) or NONE


def environments(records: Sequence[Record], folders: Mapping[str, Path]) -> str:
    """What the runs ran on and with."""
    values: dict[str, dict[str, None]] = {}
    for record in records:
        folder = folders.get(str(record.get("id")))
        for key, value in leaves(_env(folder) or record.get("env") or {}):
            values.setdefault(key, {})[value] = None
    return pairs((key, " · ".join(found)) for key, found in values.items()) if values else "<p>Not known.</p>"


def _env(folder: Path | None) -> Mapping[str, Any]:
    try:
        value = json.loads((folder / "env.json").read_text(encoding="utf-8")) if folder else {}
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, Mapping) else {}


def leaves(part: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys with their values as words."""
    if isinstance(part, Mapping):
        for name, value in part.items():
            yield from leaves(value, f"{key}.{name}" if key else str(name))
    else:
        yield key, show(part)
