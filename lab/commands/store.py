"""Keep a finished study: its results and verdicts in a small file, and a page of tables."""

from pathlib import Path

from lab.commands._parser import Parser
from lab.commands._runs import AnyOf
from lab.commands._stored import again, gather, load
from lab.commands._stored_files import add_stored, written_dir
from lab.commands._stored_page import is_picture, made
from lab.errors import LabError
from lab.files import write_atomically
from lab.report import stored, stored_index
from lab.study.manifest import Manifest, find, manifests


def main(argv: list[str]) -> int:
    """Run ``lab store``; the exit status.

    Raises:
        LabError: there is no such study, it lacks runs, or the files cannot be written.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    if (options.study is None) == (options.stored is None):
        parser.error("name a study, or with --stored one that was stored")
    if options.stored is None:
        kept = gather(_found(options.study, options.tier), incomplete=options.incomplete)
    else:
        kept = again(load(options.stored))
    text, pictures = made(kept)
    folder: Path = options.to or written_dir()
    files = {f"{kept.stem}.json": kept.text().encode(), f"{kept.stem}.md": text.encode(), **pictures}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in {*folder.glob(f"{kept.stem}-*.svg")} - {folder / name for name in files}:
            if is_picture(old.name, kept.stem):
                old.unlink()
        for name, data in files.items():
            write_atomically(folder / name, data)
            print(folder / name)
        known = [stored.read(file) for file in sorted(folder.glob("*.json"))]
        write_atomically(folder / stored_index.FILE, stored_index.index(known).encode())
    except OSError as error:
        raise LabError(f"{folder}: cannot be written ({error.strerror}); --to names another folder") from error
    return 0


def _found(word: str, tier: str | None) -> Manifest:
    """The study, of several of a name the latest, or the latest at a tier.

    Raises:
        LabError: there is none.
    """
    found = find(word)
    if tier is None:
        return found
    same = [manifest for manifest in manifests() if manifest.name == found.name and manifest.declared]
    tiers = {str((manifest.declared or {}).get("tier")): manifest for manifest in reversed(same)}
    if tier not in tiers:
        raise LabError(
            f"study {found.name} was not run at tier '{tier}', but at {', '.join(sorted(tiers)) or 'none'}"
        )
    return tiers[tier]


def _parser() -> Parser:
    parser = Parser(prog="lab store", description=__doc__)
    labels = None if Parser.completing is None else AnyOf([manifest.label for manifest in manifests()])
    parser.add_argument(
        "study",
        metavar="STUDY",
        nargs="?",
        choices=labels,
        help="a study whose runs have ended: its name, the beginning of it, or its folder",
    )
    parser.add_argument("--tier", metavar="TIER", help="the latest of that name at this tier (default: the latest)")
    add_stored(parser, "judge and write anew a study that was stored, by its name or path, without its runs")
    parser.add_argument("--to", metavar="DIR", type=Path, help="where to (default: docs/reproductions)")
    parser.add_argument(
        "--incomplete",
        action="store_true",
        help="store a study that lacks runs; claims about those that are missing have no verdict",
    )
    return parser
