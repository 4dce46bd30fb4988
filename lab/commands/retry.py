"""Train again what failed in a study or sweep, what diverged, or some runs of it."""

from collections.abc import Sequence

from lab.commands._again import add_study, train_again
from lab.commands._parser import Parser
from lab.errors import LabError, did_you_mean
from lab.study.manifest import Entry, Manifest, find
from lab.study.state import ENDED


def main(argv: list[str]) -> int:
    """Run ``lab retry``; the exit status.

    Raises:
        LabError: there is no such study or run, or one failed again.
    """
    options = _parser().parse_args(argv)
    manifest = find(options.study)
    chosen = _named(manifest, options.runs) if options.runs else _of_status(manifest, options.status)
    if not chosen:
        print(f"{manifest.label}: no run {'diverged' if options.status == 'diverged' else 'failed'}")
        return 0
    fresh = any(entry.state().status in ENDED for entry in chosen)
    return train_again(manifest, only=list(dict.fromkeys(entry.id for entry in chosen)), fresh=fresh)


def _parser() -> Parser:
    parser = Parser(prog="lab retry", description=__doc__)
    add_study(parser)
    parser.add_argument(
        "runs", metavar="RUN", nargs="*", default=[], help="ids, or their beginnings; begun anew if they had ended"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--failed",
        dest="status",
        action="store_const",
        const="failed",
        help="runs that failed or were killed go on from their checkpoints (the default)",
    )
    which.add_argument(
        "--diverged", dest="status", action="store_const", const="diverged", help="runs that diverged begin anew"
    )
    return parser


def _of_status(manifest: Manifest, status: str | None) -> list[Entry]:
    wanted = ("diverged",) if status == "diverged" else ("failed", "partial")
    return [entry for entry, state in manifest.states() if state.status in wanted]


def _named(manifest: Manifest, names: Sequence[str]) -> list[Entry]:
    """The runs that were named.

    Raises:
        LabError: one of them is not there, or several begin so.
    """
    chosen: list[Entry] = []
    for text in names:
        found = {entry.id: entry for entry in manifest.runs if entry.id.startswith(text)}
        if len(found) != 1:
            ids = [entry.id for entry in manifest.runs]
            what = f"could be {', '.join(found)}" if found else f"is not a run of {manifest.label}"
            raise LabError(f"run '{text}' {what}{'' if found else did_you_mean(text, ids)}")
        chosen += found.values()
    return chosen
