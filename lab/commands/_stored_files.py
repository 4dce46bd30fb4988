"""Where stored studies lie, and the option that names one."""

from pathlib import Path

from lab.commands._parser import Parser
from lab.commands._runs import AnyOf
from lab.paths import reproductions_dir

INSTEAD = (
    "a study as it was stored, by the name of its file in docs/reproductions or by its path, in place of runs: "
    "nothing is trained and no run folder is read"
)


def add_stored(parser: Parser, said: str = INSTEAD) -> None:
    """The option that names a stored study."""
    parser.add_argument(
        "--stored",
        metavar="STEM",
        choices=None if Parser.completing is None else AnyOf(stems()),
        help=said,
    )


def places() -> list[Path]:
    """Folders in which stored studies are looked for: of an installed lab the one at hand, then the shipped one."""
    return list(dict.fromkeys([written_dir(), reproductions_dir()]))


def stored_files() -> list[Path]:
    """All that are there; of two of one stem the first."""
    found = {path.stem: path for place in reversed(places()) for path in place.glob("*.json")}
    return [found[stem] for stem in sorted(found)]


def written_dir() -> Path:
    """Where studies are stored: in the checkout that lab runs from, or under the current directory."""
    shipped = reproductions_dir()
    return shipped if shipped.parent.name == "docs" else Path("docs") / "reproductions"


def stems() -> list[str]:
    """Their names."""
    return [path.stem for path in stored_files()]
