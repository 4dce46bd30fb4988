"""A stored study as a page of Markdown: what was asked and run, tables, claims with their verdicts, figures."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.report.claims_grid import claims_grid, measured_by
from lab.report.formats import markdown, marked
from lab.report.grid import NONE, Grid
from lab.report.notes import ranges, si
from lab.report.rows import within
from lab.report.stored import Stored
from lab.report.variants import choice, show
from lab.stats.contrast import ALPHA

AT_ITS_SCALE = "A verdict is about the scale of these runs alone, not about the paper's."

PAIRS = (
    "Pair: how our number of the first stands to that of the second, if the claim holds; Δ is their difference. "
    "p is corrected by Holm's method over all pairs of a metric. The intervals hold all at once and are wider: one "
    "may reach over zero where p is small."
)

DAGGER = "† not read in the source itself: told by others, or from memory."


@dataclass(frozen=True)
class Picture:
    """A figure of the page."""

    file: str
    """Beside the page."""
    shows: str
    """What is to be seen, in a sentence."""


def page(kept: Stored, grids: Sequence[Grid], pictures: Sequence[Picture], notes: Sequence[str] = ()) -> str:
    """The page.

    Args:
        kept: the study.
        grids: its tables.
        pictures: its figures.
        notes: what is missing.
    """
    parts = [
        f"# {kept.stem}",
        marked(str(kept.declared.get("question") or "")),
        *(f"**{marked(note)}**" for note in notes),
        "\n".join(f"- {line}" for line in _ran(kept)),
        *(markdown(grid) for grid in grids),
        *_claims(kept),
        *(f"{marked(one.shows)}\n\n![{one.file.partition('.')[0]}]({one.file})" for one in pictures),
        "## Again",
        _again(kept),
        _made(kept),
        f"Written by `lab store {kept.study}`; every number by seed, the curves and the study as it was declared "
        f"are in [{kept.stem}.json]({kept.stem}.json).",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def scale(kept: Stored) -> str:
    """The size of the runs in a few words."""
    records = [run.result for run in kept.runs if run.role == "report"]
    pieces = [
        _span([within(one, "parameters", "total") for one in records], "parameters"),
        _span([within(one, "tokens") for one in records], "tokens"),
    ]
    return ", ".join(piece for piece in pieces if piece)


def _ran(kept: Stored) -> Iterator[str]:
    reported = [run for run in kept.runs if run.role == "report"]
    records = [run.result for run in reported]
    arms = list(dict.fromkeys(run.arm for run in reported))
    seeds = sorted({run.seed for run in reported if run.seed is not None})
    diverged = sum(run.result["status"] == "diverged" for run in reported)
    tuned = len(kept.runs) - len(reported)
    counts = [f"{len(arms)} variants", f"seeds {ranges(seeds)}", f"{len(reported)} runs"]
    counts += [f"{diverged} of them diverged"] if diverged else []
    counts += [f"{tuned} more at other learning rates or on tuning seeds"] if tuned else []
    yield f"**Tier** {kept.tier or 'none'}: {', '.join(counts)}"
    pieces = [scale(kept)]
    for section, key, unit in (("train", "steps", "steps"), ("model", "max_seq_len", "tokens of context")):
        pieces.append(_span([within(one, "config", section, key) for one in records], unit))
    for section in ("data", "tokenizer"):
        names = sorted({name for one in records if (name := choice(one, section))})
        pieces.append(f"{section} {', '.join(names)}" if names else "")
    yield f"**Size** {'; '.join(piece for piece in pieces if piece)}"
    rates = sorted({lr for one in records if (lr := within(one, "config", "optim", "lr")) is not None})
    mode = str((kept.declared.get("lr") or {}).get("mode") or "shared")
    yield f"**Learning rate** {mode}: {', '.join(map(show, rates)) or NONE}"
    spent = "not known" if kept.hours is None else f"{kept.hours:g} hours of training, summed over runs"
    threads = ", ".join(map(str, kept.threads)) or "?"
    yield f"**Time** {spent}; threads a run: {threads}; asked {kept.asked[:10]}, ended {kept.date}"
    if words := in_words(kept):
        yield f"**Claims** {words}"


def in_words(kept: Stored) -> str:
    """How many claims there are of each kind of verdict; empty where there is none."""
    words = Counter(str(said["kind"]) for said in kept.claims if said["kind"])
    return ", ".join(f"{n} {word}" for word, n in words.most_common())


def _span(values: Sequence[float | int | None], unit: str) -> str:
    known = [float(value) for value in values if value is not None]
    if not known:
        return ""
    low, high = si(min(known)), si(max(known))
    return f"{low if low == high else f'{low}–{high}'} {unit}"


def _claims(kept: Stored) -> Iterator[str]:
    yield "## Claims"
    if not kept.claims:
        yield "The study names no published claim."
        return
    yield AT_ITS_SCALE
    alpha = (kept.declared.get("stats") or {}).get("alpha", ALPHA)
    yield from map(markdown, claims_grid(kept.claims, alpha))
    yield PAIRS + (f" {DAGGER}" if any(claim["told"] for claim in kept.claims) else "")
    yield "\n".join(line for claim in kept.claims for line in _about(claim))


def _about(claim: Mapping[str, Any]) -> Iterator[str]:
    """The claim in words, its verdict, and the two scales."""
    mark = "†" if claim["told"] else ""
    mde = "" if claim["mde"] is None else f", MDE {si(claim['mde'])} {claim['unit']}".rstrip()
    verdict = claim["verdict"] or "no verdict at this tier"
    yield f"- **{marked(claim['claim'])}**{mark}: *{marked(verdict)}*. {marked(claim['statement'])}"
    yield f"  - published: {marked(claim['source'])}; {marked(claim['setup'])}"
    yield f"  - here: {marked(claim['scale'])}; {claim['seeds']} seeds{marked(mde)}"
    yield f"  - tested by: {marked(measured_by(claim))}"
    if claim["caveat"]:
        yield f"  - caveat: {marked(claim['caveat'])}"


def _again(kept: Stored) -> str:
    words = " ".join(kept.words)
    made = f"make repro-{kept.study} TIER={kept.tier}" if kept.tier else ""
    lines = ["```bash", made, f"lab train {words}" if words else ""]
    lines += [f"lab store {kept.study}", f"lab table --stored {kept.stem}", "```"]
    return "\n".join(line for line in lines if line)


def _made(kept: Stored) -> str:
    """What it ran on and with."""
    machines = [
        ", ".join(
            [str(one.get("processor") or "unknown processor")]
            + ([f"{one['cores']} cores"] if one.get("cores") else [])
            + ([str(one["gpu"])] if one.get("gpu") else [])
            + ([str(one["platform"])] if one.get("platform") else [])
        )
        for one in kept.machine
    ]
    versions = [
        f"{name} {', '.join(kept.versions[name])}" for name in ("lab", "torch", "python") if name in kept.versions
    ]
    commits = f"commit{'s' if len(kept.commits) > 1 else ''} {', '.join(kept.commits)}" if kept.commits else ""
    dirty = " with changes that were not committed" if kept.dirty else ""
    pieces = [" and ".join(machines), *versions, commits + dirty, f"study {kept.study}-{kept.hash}"]
    return " · ".join(marked(piece) for piece in pieces if piece)
