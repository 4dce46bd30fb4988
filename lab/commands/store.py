"""Keep a finished study: its results and thinned curves in one small file."""

from pathlib import Path

from lab.commands._parser import Parser
from lab.commands._runs import AnyOf
from lab.commands._stored import gather
from lab.errors import LabError
from lab.files import write_atomically
from lab.paths import reproductions_dir
from lab.study.manifest import find, manifests


def main(argv: list[str]) -> int:
    """Run ``lab store``; the exit status.

    Raises:
        LabError: there is no such study, it lacks runs, or the files cannot be written.
    """
    options = _parser().parse_args(argv)
    kept = gather(find(options.study), incomplete=options.incomplete)
    folder: Path = options.to or reproductions_dir()
    file = folder / f"{kept.stem}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(file, kept.text().encode())
    except OSError as error:
        raise LabError(f"{file}: cannot be written ({error.strerror}); --to names another folder") from error
    print(file)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="lab store", description=__doc__)
    labels = None if Parser.completing is None else AnyOf([manifest.label for manifest in manifests()])
    parser.add_argument(
        "study",
        metavar="STUDY",
        choices=labels,
        help="a study whose runs have ended: its name, the beginning of it, or its folder",
    )
    parser.add_argument("--to", metavar="DIR", type=Path, help="where to (default: docs/reproductions)")
    parser.add_argument(
        "--incomplete",
        action="store_true",
        help="store a study that lacks runs; claims about those that are missing have no verdict",
    )
    return parser
