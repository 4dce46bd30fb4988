"""The tables and figures of a stored study's page: which, by what the study asks and what its runs came to."""

import math
import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from lab.commands._claims import with_claims
from lab.commands._compared import comparison
from lab.commands._picture import picture, smaller
from lab.commands._stored import drawn, found
from lab.errors import LabError
from lab.figure import Run
from lab.figure._style import STYLES
from lab.report import thinned
from lab.report.grid import Grid
from lab.report.lr_table import lr_sensitivity
from lab.report.main_table import table
from lab.report.metric import is_of_grid
from lab.report.rows import within
from lab.report.stability_table import stability
from lab.report.stored import Stored
from lab.report.stored_page import Picture, page

LARGEST = 60_000
"""Bytes of a figure that is kept beside a page."""

UNSTABLE = ("spikes", "clipped_share", "layers")
"""What numbers begin with that table B shows."""

SHOWS = {
    "effects": "Every difference from the baseline, a dot a seed, with the intervals of the family.",
    "lr": "The final held-out loss by learning rate.",
    "spikes": "Where the spikes of loss and gradient norm lie, a row a seed.",
    "loss": "The loss over steps, seeds thin and means thick.",
}
"""Kinds of figures, and what each is."""

OTHER = "The same of {}, for the pairs that a claim is about."
"""Of differences in another number."""


def made(kept: Stored) -> tuple[str, dict[str, bytes]]:
    """The page and its figures by file name."""
    pictures = {f"{kept.stem}-{name}.svg": (shows, svg) for name, shows, svg in _pictures(kept)}
    text = page(
        kept,
        list(_grids(kept)),
        [Picture(file, shows) for file, (shows, _) in pictures.items()],
        found(kept).missing,
    )
    return text, {file: svg for file, (_, svg) in pictures.items()}


def is_picture(file: str, stem: str) -> bool:
    """Whether a file is called as a figure of a study's page is."""
    return re.fullmatch(rf"{re.escape(stem)}-({'|'.join(SHOWS)})(-\w+)?\.svg", file) is not None


def _grids(kept: Stored) -> Iterator[Grid]:
    compared = with_claims(comparison(found(kept)))
    yield table(replace(compared, judged=()))  # the page has a section for them
    if _is_about_stability(kept):
        yield stability(compared.variants)
    if _has_rates(kept):
        rates = comparison(found(kept, tuning=True))
        yield lr_sensitivity(rates.variants, fresh=rates.fresh)


def _is_about_stability(kept: Stored) -> bool:
    """Whether it tests a claim on spikes, injects what makes them, or has runs that diverged."""
    asked = [str(one.get("metric")) for one in kept.declared.get("published") or ()]
    if any(name.split(".")[0] in UNSTABLE for name in asked):
        return True
    records = [run.result for run in kept.runs if run.role == "report"]
    planted = any(within(record, "config", "data", "ngram_rate") for record in records)
    return planted or any(record["status"] == "diverged" for record in records)


def _has_rates(kept: Stored) -> bool:
    arms: dict[str, set[Any]] = {}
    for run in kept.runs:
        arms.setdefault(run.arm, set()).add(within(run.result, "config", "optim", "lr"))
    return any(len(rates) > 1 for rates in arms.values())


def _pictures(kept: Stored) -> Iterator[tuple[str, str, bytes]]:
    """Name, what it shows, and the figure, of those that can be drawn and are small."""
    for metric in ("", *_metrics(kept)):
        svg = _drawn("effects", Namespace(style=STYLES[0], comparison=comparison(found(_about(kept, metric)))))
        if svg is not None and len(svg) <= LARGEST:
            key = re.sub(r"\W+", "_", metric.removeprefix("measures.")).strip("_")
            yield f"effects-{key}" if key else "effects", OTHER.format(metric) if key else SHOWS["effects"], svg
    for kind in [*(["lr"] if _has_rates(kept) else []), *(["spikes"] if _is_about_stability(kept) else []), "loss"]:
        runs = drawn(kept, tuning=kind == "lr")
        options = Namespace(style=STYLES[0], smooth=1, first=0, in_order=True, runs=runs)
        svg = _drawn(kind, options)
        if svg is not None and len(svg) > LARGEST and kind == "loss":
            options.runs = _coarser(runs, math.ceil(2 * len(svg) / LARGEST))
            svg = _drawn(kind, options) or svg
        if svg is not None and len(svg) <= LARGEST:
            yield kind, SHOWS[kind], svg


def _metrics(kept: Stored) -> list[str]:
    """Numbers of a run beside the study's own that its claims are about, better where lower: the first two."""
    primary = kept.declared.get("primary")
    asked = [str(said["metric"]) for said in kept.claims if said["want"] == "lower"]
    return [name for name in dict.fromkeys(asked) if name != primary and not is_of_grid(name)][:2]


def _about(kept: Stored, metric: str) -> Stored:
    """The study with another number for its own, and its claims' pairs for contrasts; empty: as it is."""
    if not metric:
        return kept
    base = kept.declared["baseline"]["name"]
    same = (said for said in kept.claims if said["metric"] == metric)
    pairs = {frozenset(pair["arms"]): pair["arms"] for said in same for pair in said["pairs"]}
    contrasts = [f"{a} - {b}" if b == base else f"{b} - {a}" for a, b in pairs.values()]
    return replace(kept, declared={**kept.declared, "primary": metric, "contrasts": contrasts, "published": []})


def _drawn(kind: str, options: Namespace) -> bytes | None:
    """The figure; None where it cannot be drawn, as with nothing to compare, or more variants than can be told."""
    try:
        return smaller(picture(import_module(f"lab.figure.{kind}"), options, ".svg"))
    except LabError:
        return None


def _coarser(runs: Sequence[Run], every: int) -> list[Run]:
    """With a part of the grid of their curves, the ends and the validations."""
    lines = [list(run.lines or ()) for run in runs]
    at = {*thinned.grid(lines)[::-every]}
    return [
        replace(run, lines=[line for line in own if line["step"] in at or "val_loss" in line or line is own[-1]])
        for run, own in zip(runs, lines, strict=True)
    ]
