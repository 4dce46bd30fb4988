"""Draw figures of runs, and of what a configuration comes to, as PNG, SVG or PDF."""

import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from contextlib import suppress
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.commands._parser import Parser
from lab.commands._picture import FORMATS, picture
from lab.commands._runs import add_run
from lab.commands._stored_files import add_stored
from lab.errors import ConfigError, LabError
from lab.figure import NEEDS, Choice, Run, listing
from lab.figure._style import STYLES
from lab.files import write_atomically
from lab.paths import runs_dir

if TYPE_CHECKING:
    from lab.report.comparison import Comparison

LEAST_OF_AN_ID = 6
"""Characters by which a run is named; fewer are the beginning of something else."""

STORED = ("runs", "comparison")
"""What a kind needs of which a stored study has enough."""

_METAVAR = {"runs": "PATH", "comparison": "PATH", "overrides": "OVERRIDE", "either": "PATH | OVERRIDE"}
_PATHS = "a study by name or folder, a run by id or folder, a folder of them, or an outputs folder"
_OVERRIDES = "as for lab train; A,B for a value draws each of them"
_HELP = {
    "runs": f"{_PATHS} (default: outputs)",
    "comparison": f"{_PATHS} (default: outputs)",
    "overrides": _OVERRIDES,
    "either": f"{_PATHS}; or overrides {_OVERRIDES}",
}


def main(argv: list[str]) -> int:
    """Run ``lab plot``; the exit status, 1 where there is nothing to draw.

    Raises:
        LabError: the suffix is unknown, a path or a run is missing, or a configuration is refused.
    """
    name = argv[0] if argv[:1] and argv[0] in listing() else _which(argv)
    kind = import_module(f"lab.figure.{name}")
    if kind.NEEDS not in STORED and any(word.partition("=")[0] == "--stored" for word in argv):
        kinds = ", ".join(each for each in listing() if import_module(f"lab.figure.{each}").NEEDS in STORED)
        raise ConfigError(f"'{name}' is drawn from models, which are not stored: --stored is for {kinds}")
    options = _parser(name, kind).parse_with_overrides(argv[1:])
    options.output = Path(options.output)
    if options.output.suffix.lower() not in FORMATS:
        raise ConfigError(f"-o '{options.output}' must end in {', '.join(FORMATS)}")
    words: list[str] = options.overrides
    if kind.NEEDS == "run":
        from lab.runs.find import find_run

        for word in words:
            raise ConfigError(f"'{word}': lab plot {name} takes one run")
        options.run = find_run(options.run)
    elif kind.NEEDS == "overrides" or (kind.NEEDS == "either" and all("=" in word for word in words)):
        options.choices, options.runs = _choices(words), []
    elif kind.NEEDS in STORED and options.stored is not None:
        _stored(kind, options)
    elif kind.NEEDS == "comparison":
        options.comparison = _comparison([Path(word) for word in words], options)
    elif kind.NEEDS == "either" and any("=" in word for word in words):
        override = next(word for word in words if "=" in word)
        path = next(word for word in words if "=" not in word)
        raise ConfigError(
            f"'{override}' is an override and '{path}' a path: lab plot {name} takes the ones or the others"
        )
    else:
        options.choices = []
        every_stage = getattr(kind, "EVERY_STAGE", False)
        options.runs, options.in_order = _runs([_place(word) for word in words], every_stage=every_stage)
        if not options.runs:
            print(f"lab plot: no runs in {', '.join(words) or runs_dir()}", file=sys.stderr)
            return 1
    _write(kind, options)
    return 0


def _which(argv: list[str]) -> str:
    """The kind, where the first word is none: an error, help, or completion."""
    parser = Parser(
        prog="lab plot",
        description=f"{__doc__} `lab plot KIND --help` says what a kind takes.",
        formatter_class=RawDescriptionHelpFormatter,
        epilog="kinds:\n" + "\n".join(f"  {name:<11}{line}" for name, line in listing().items()),
    )
    parser.add_argument("kind", metavar="KIND", choices=list(listing()), help="what to draw, the first word")
    kind: str = parser.parse_args(argv).kind
    return kind


def _write(kind: Any, options: Namespace) -> None:
    """Draw, and put the file in its place.

    Raises:
        LabError: it cannot be drawn, or not written.
    """
    data = picture(kind, options, options.output.suffix.lower())
    try:
        write_atomically(options.output, data)
    except OSError as error:
        raise LabError(f"{options.output}: cannot be written ({error.strerror})") from error
    print(options.output)


def _choices(words: list[str]) -> list[Choice]:
    """One configuration for each combination of what has several values.

    Raises:
        ConfigError: a word is refused.
    """
    from lab.compose import compose_config, match_target, one_line_errors, parse_override
    from lab.hints import spelled
    from lab.training.resolve import resolve

    words = [spelled(word) for word in words]
    with one_line_errors(words):
        parsed = [parse_override(word) for word in words]
    axes = []
    for word, override in zip(words, parsed, strict=True):
        several = override.is_sweep_override() and override.is_discrete_sweep()
        values = override.sweep_string_iterator() if several else ()
        axes.append([f"{override.get_key_element()}={value}" for value in values] if several else [word])
    found = []
    for combination in product(*axes):
        label = " ".join(word for word, axis in zip(combination, axes, strict=True) if len(axis) > 1)
        config = compose_config(combination)
        found.append(Choice(label, resolve(config), match_target(config)))
    return found


def _place(word: str) -> Path:
    """The path that a word is, or the folder of the run whose id it begins."""
    from lab.runs.find import find_run

    path = Path(word)
    if not path.exists() and len(word) >= LEAST_OF_AN_ID:
        with suppress(LabError):  # it is a study's name
            return find_run(word).path
    return path


def _runs(paths: list[Path], *, every_stage: bool) -> tuple[list[Run], bool]:
    """The runs under the paths, or in the outputs folder, and whether they come in a study's order.

    Raises:
        LabError: a path is missing or cannot be read.
    """
    from lab.commands._compared import find

    if not paths:
        paths = [runs_dir()] if runs_dir().exists() else []
    found = find(paths, tuning=every_stage)
    pairs = zip(found.records, found.folders, strict=True)
    return [Run(record, folder, found.arms.get(folder)) for record, folder in pairs], found.studies


def _comparison(paths: list[Path], options: Namespace) -> "Comparison":
    """What ``lab table`` would print.

    Raises:
        LabError: there are no runs, or the baseline is none of them.
    """
    from lab.commands._compared import comparison, find

    if not paths and not runs_dir().exists():
        raise LabError(f"no runs in {runs_dir()}")
    found = find(paths or [runs_dir()])
    if not found.records:
        raise LabError(f"no runs in {', '.join(map(str, paths)) or runs_dir()}")
    return comparison(found, baseline=options.baseline)


def _stored(kind: Any, options: Namespace) -> None:
    """Take the runs of a stored study.

    Raises:
        LabError: it is not there, or other runs are named too.
    """
    from lab.commands._compared import comparison
    from lab.commands._stored import drawn, found, load

    for word in options.overrides:
        raise ConfigError(
            f"--stored {options.stored} and '{word}' exclude each other: name a stored study or paths"
        )
    kept = load(options.stored)
    if kind.NEEDS == "comparison":
        options.comparison = comparison(found(kept), baseline=options.baseline)
    else:
        options.runs, options.in_order = drawn(kept, tuning=getattr(kind, "EVERY_STAGE", False)), True


def _parser(name: str, kind: Any) -> Parser:
    """What a kind takes."""
    assert kind.NEEDS in NEEDS, name
    parser = Parser(prog=f"lab plot {name}", description=kind.__doc__, formatter_class=RawDescriptionHelpFormatter)
    if kind.NEEDS == "run":
        add_run(parser)
        parser.set_defaults(overrides=[])
    else:
        parser.add_argument("overrides", metavar=_METAVAR[kind.NEEDS], nargs="*", help=_HELP[kind.NEEDS])
    if kind.NEEDS in STORED:
        add_stored(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the file: .png, .svg or .pdf")
    parser.add_argument(
        "--style", choices=STYLES, default=STYLES[0], help="for print, or for a projector (default: paper)"
    )
    kind.add_arguments(parser)
    return parser
