"""Say where a training step goes: time, FLOPs, memory by class; the floor of its products."""

import io
import shutil
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.commands._parser import Parser
from lab.component import check_number
from lab.errors import ConfigError, LabError
from lab.figure._style import STYLES, context
from lab.files import write_atomically
from lab.report.formats import FORMATS
from lab.report.profile_table import grid, operators

if TYPE_CHECKING:
    from lab.report.grid import Grid

PICTURES: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Suffix to the metadata that would make each file another one."""

PIPE_WIDTH = 116
"""Columns of notes where the output is no terminal."""


def main(argv: list[str]) -> int:
    """Run ``lab profile``; the exit status.

    Raises:
        LabError: the configuration or its data are refused, or the picture cannot be written.
    """
    options = _parser().parse_with_overrides(argv)
    check_number("--steps", options.steps, least=2)
    check_number("--operators", options.operators, least=0)
    picture = None if options.output is None else Path(options.output)
    if picture is not None and picture.suffix.lower() not in PICTURES:
        raise ConfigError(f"-o '{picture}' must end in {', '.join(PICTURES)}")

    from lab.compose import compose_config, match_target

    config = compose_config(options.overrides, config_dir=options.config_dir)
    target = match_target(config)

    from lab.progress import progress
    from lab.training.plan import plan
    from lab.training.profile.facts import facts as facts_of
    from lab.training.profile.measure import measure

    planned = plan(config, target)
    with progress("profile: steps", total=2 * options.steps) as bar:
        facts = facts_of(planned, measure(planned, options.steps, bar))
    made = operators(facts, options.operators) if options.operators else grid(facts)
    print(FORMATS[options.format](_broken(made) if options.format == "text" else made))
    if picture is not None:
        _draw(facts, picture, options.style)
    return 0


def _broken(made: "Grid") -> "Grid":
    """The table with its notes broken to the width of the page."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH
    return replace(made, notes=[textwrap.fill(note, width, break_long_words=False) for note in made.notes])


def _draw(facts: Mapping[str, Any], path: Path, style: str) -> None:
    """Draw, and put the file in its place.

    Raises:
        LabError: it cannot be written.
    """
    from lab.figure._step import draw

    suffix = path.suffix.lower()
    with context(style):
        data = io.BytesIO()
        draw(facts, style).savefig(data, format=suffix[1:], metadata=PICTURES[suffix])
    try:
        write_atomically(path, data.getvalue())
    except OSError as error:
        raise LabError(f"{path}: cannot be written ({error.strerror})") from error
    print(path, file=sys.stderr)


def _parser() -> Parser:
    parser = Parser(
        prog="lab profile",
        description=f"{__doc__} Real steps on real batches, of which nothing is kept; data and tokenizer are "
        "prepared if they are new.",
    )
    parser.add_argument(
        "overrides",
        metavar="OVERRIDE",
        nargs="*",
        help="as for lab train: norm=layernorm, model.dim=256, precision=bf16, threads=1",
    )
    parser.add_argument("--config-dir", "-cd", metavar="DIR", help="a folder with configuration files of your own")
    parser.add_argument(
        "--steps", metavar="N", type=int, default=10, help="steps to time, and as many to profile (default: 10)"
    )
    parser.add_argument(
        "--operators", metavar="N", type=int, default=0, help="list the N operators that take longest instead"
    )
    parser.add_argument(
        "--format",
        choices=list(FORMATS),
        default="text",
        help="for a terminal or a paper, or data: json has every number (default: text)",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="draw a picture too: .png, .svg or .pdf")
    parser.add_argument(
        "--style", choices=STYLES, default=STYLES[0], help="of the picture: for print, or for a projector"
    )
    return parser
