"""List the published claims, each with what the strongest stored study says of it."""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence

from lab.commands._ledger import Entry, counted, ledger, read_all
from lab.commands._parser import Parser
from lab.commands._runs import AnyOf
from lab.commands._stored_files import stored_files
from lab.report.claims_grid import difference_said, measured_by, pair_said, published_said
from lab.report.formats import marked
from lab.report.grid import NONE, Column, Grid
from lab.report.notes import si
from lab.report.panels import text
from lab.study.claims import DAGGER, topics

DAGGER_SAID = f"{DAGGER} not read in the source itself: told by others, or from memory"

SCALE_SAID = "a verdict is about the scale at which the study was run, not about the paper's"


def main(argv: list[str]) -> int:
    """Run ``lab claims``; the exit status.

    Raises:
        LabError: a word is no claim and no topic, or a stored study cannot be read.
    """
    options = _parser().parse_args(argv)
    entries = ledger(read_all(stored_files()), options.words)
    if options.format == "json":
        print(json.dumps([entry.data for entry in entries], indent=1, ensure_ascii=False, allow_nan=False))
    elif options.format == "markdown":
        print("\n\n".join(_markdown(entries)))
    else:
        named = {entry.claim.id for entry in entries} & {*options.words}
        print("\n".join(_text(entries, in_full=bool(named))))
    return 0


def _parser() -> Parser:
    parser = Parser(prog="lab claims", description=f"{__doc__} The studies are those that lab store has kept.")
    known = (
        None if Parser.completing is None else AnyOf([*topics(), *(i for ids in topics().values() for i in ids)])
    )
    parser.add_argument(
        "words", metavar="ID|TOPIC", nargs="*", choices=known, help="these claims alone (default: all)"
    )
    parser.add_argument(
        "--format",
        choices=["text", "markdown", "json"],
        default="text",
        help="for people, for a page, or a list with every number (default: text)",
    )
    return parser


def _topics(entries: Sequence[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    for topic in dict.fromkeys(entry.topic for entry in entries):
        yield topic, [entry for entry in entries if entry.topic == topic]


def _text(entries: Sequence[Entry], *, in_full: bool) -> Iterator[str]:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if in_full:
        for entry in entries:
            yield from (*_full(entry), "")
    else:
        for topic, own in _topics(entries):
            yield from (text(_grid(topic, own), width=width), "")
    yield from (*counted(entries), *_footer(entries))


def _footer(entries: Sequence[Entry]) -> Iterator[str]:
    if any(entry.said for entry in entries):
        yield SCALE_SAID
    if any(entry.claim.mark for entry in entries):
        yield DAGGER_SAID


def _grid(topic: str, entries: Sequence[Entry]) -> Grid:
    heads = ("claim", "study", "tier", "seeds", "MDE", "tested by", "verdict")
    return Grid(
        title=topic.capitalize(),
        columns=[Column(header=head, left=head not in ("seeds", "MDE")) for head in heads],
        rows=[
            (
                f"{entry.claim.id}{entry.claim.mark}",
                entry.study or NONE,
                entry.tier or NONE,
                str(entry.said.get("seeds") or NONE),
                _mde(entry),
                str(entry.said.get("metric") or NONE).removeprefix("measures."),
                str(entry.said.get("verdict") or entry.status),
            )
            for entry in entries
        ],
    )


def _mde(entry: Entry) -> str:
    mde = entry.said.get("mde")
    return NONE if mde is None else f"{si(mde)} {entry.said['unit']}".rstrip()


def _full(entry: Entry) -> Iterator[str]:
    """A claim with its figures, a line each."""
    one = entry.claim
    yield f"{one.id}{one.mark}: {entry.said.get('verdict') or entry.status}"
    yield f"  {one.statement}"
    yield f"  published: {one.source}; {one.setup}"
    if entry.said:
        yield f"  here: {entry.said['scale']}; {entry.said['seeds']} seeds, MDE {_mde(entry)}; {_where(entry)}"
        yield f"  tested by: {measured_by(entry.said)}"
        for pair in entry.said["pairs"]:
            said = f"published Δ {published_said(entry.said, pair)}, measured {difference_said(pair)}"
            yield f"  {pair_said(entry.said, pair)}: {said}; {pair['verdict'] or 'no verdict'}"
    elif entry.studies:
        yield f"  to be run: lab train study={entry.studies[0]}"
    if one.caveat:
        yield f"  caveat: {one.caveat}"


def _here(entry: Entry) -> str:
    return f"{entry.said['scale']}, MDE {_mde(entry)}; tested by {measured_by(entry.said)}"


def _where(entry: Entry) -> str:
    return f"study {entry.study}, tier {entry.tier or 'none'}, {entry.link}"


def _markdown(entries: Sequence[Entry]) -> Iterator[str]:
    """A table a topic, with the statements."""
    for topic, own in _topics(entries):
        yield f"## {topic.capitalize()}"
        yield "\n".join(
            [
                "| claim | statement | published | study | seeds | verdict |",
                "| :-- | :-- | :-- | :-- | --: | :-- |",
                *(f"| {' | '.join(_row(entry))} |" for entry in own),
            ]
        )
    yield "  \n".join(map(marked, (*counted(entries), *_footer(entries))))


def _row(entry: Entry) -> list[str]:
    study = marked(entry.study or NONE) + (f" ({entry.tier})" if entry.tier else "")
    return [
        f"{marked(entry.claim.id)}{entry.claim.mark}",
        marked(entry.claim.statement),
        marked(f"{entry.claim.source}; {entry.claim.setup}"),
        f"[{study}]({entry.link})" if entry.link else study,
        str(entry.said.get("seeds") or NONE),
        marked(str(entry.said.get("verdict") or entry.status))
        + (f"; {marked(_here(entry))}" if entry.said else ""),
    ]
