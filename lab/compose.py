"""Hydra's side of the seam: composing configurations outside `lab train`, and saying its errors in one line."""

import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from lab import choices
from lab.errors import ConfigError, LabError, did_you_mean, one_line
from lab.paths import conf_dir

if TYPE_CHECKING:
    from lab.config import RunConfig

CONFIG_NAME = "train"

ALIASES = {"attention": "attn"}
"""Other spellings of a group's name that the command line takes."""


def compose_config(overrides: Sequence[str], *, config_dir: str | None = None) -> "RunConfig":
    """What `lab train` would run with these overrides.

    Raises:
        ConfigError: an override is refused; the message names it.
    """
    words = [spelled(word) for word in overrides]
    with one_line_errors(words, config_dir=config_dir):
        tree = compose_tree([*words, *search_path(config_dir)])
    from lab.config import RunConfig

    with one_line_errors(words, config_dir=config_dir):
        return RunConfig.decode(tree)


def compose_tree(overrides: Sequence[str]) -> DictConfig:
    """Hydra's composition of conf/train.yaml with overrides, without the ``hydra`` node."""
    with hydra_here():
        return compose(CONFIG_NAME, overrides=list(overrides))


@contextmanager
def hydra_here() -> Iterator[GlobalHydra]:
    """Hydra over conf/, whatever state an earlier use in this process left it in."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(version_base="1.3", config_dir=str(conf_dir())):
        yield GlobalHydra.instance()


def search_path(config_dir: str | None) -> list[str]:
    """The override that makes Hydra look in a folder of the user's too, as ``--config-dir`` does."""
    if config_dir is None:
        return []
    folder = str(Path(config_dir).resolve()).replace("\\", "\\\\").replace("'", "\\'")
    return [f"hydra.searchpath=['file://{folder}']"]


def spelled(word: str) -> str:
    """An override with its group's name in the project's own spelling."""
    match = re.match(r"([+~]*)(\w+)([.=@].*|$)", word, re.DOTALL)
    if match is None or match[2] not in ALIASES:
        return word
    return f"{match[1]}{ALIASES[match[2]]}{match[3]}"


@contextmanager
def one_line_errors(words: Sequence[str], *, config_dir: str | None = None) -> Iterator[None]:
    """Turn what Hydra and OmegaConf raise into a ConfigError of one line that names the key.

    Raises:
        ConfigError: a word is refused, before or while the body runs.
    """
    if config_dir is not None and not Path(config_dir).is_dir():
        raise ConfigError(f"--config-dir '{config_dir}' is not a folder")
    overrides = [_parse(word) for word in words]
    for override in overrides:
        _check(override, config_dir)
    try:
        yield
    except LabError:
        raise
    except Exception as error:
        if _is_ours(error):
            raise
        raise ConfigError(_explain(error, overrides, config_dir)) from error


def _is_ours(error: Exception) -> bool:
    """Whether the error came up in lab's own code and not in Hydra's: then it is a bug, and says so itself."""
    names = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next(name for name in map(_package, reversed(names)) if name in ("lab", "hydra", "omegaconf")) == "lab"


def _package(module: str) -> str:
    return module.partition(".")[0]


def _parse(word: str) -> Override:
    """One word of the command line.

    Raises:
        ConfigError: it is not an override.
    """
    allowed = "write KEY=VALUE or KEY=[A,B], with all brackets and quotes closed"
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        if re.fullmatch(r"\+*[\w./@]+", word):
            key = word.lstrip("+")
            menu = f", one of {', '.join(group_choices(key))}" if group_choices(key) else ""
            raise ConfigError(f"'{word}' is not an override: write {word}=VALUE{menu}") from error
        reason = one_line(str(error).partition("See https")[0])
        raise ConfigError(f"'{word}' cannot be read: {allowed} ({reason})") from error
    if not override.key_or_group:
        raise ConfigError(f"'{word}' has no key: {allowed}")
    return override


def _check(override: Override, config_dir: str | None) -> None:
    """Refuse what an override of a group cannot be.

    Raises:
        ConfigError: names the group and its choices.
    """
    group, word = override.key_or_group, override.input_line
    if group.split(".")[0].split("/")[0] == "hydra":
        return
    known = group_choices(group, config_dir)
    menu = ", ".join(known)
    if override.is_delete():
        instead = f"; {group} is one of {menu}" if known else ""
        raise ConfigError(f"'{word}': nothing can be taken out of a run's configuration with '~'{instead}")
    if override.package is not None:
        raise ConfigError(f"'{word}' names a package with '@', which lab does not use: write {group}=VALUE")
    if not known:
        return
    if override.is_add() and group in choices.GROUPS:
        raise ConfigError(f"'{word}': {group} is set already, write it without '+'")
    if override.is_sweep_override() and not override.is_choice_sweep():
        return
    value: Any = override.value()
    for chosen in value.list if override.is_choice_sweep() else [value]:
        _check_choice(group, chosen, menu)


def _check_choice(group: str, value: Any, menu: str) -> None:
    several = group in choices.COMBINED
    if several and isinstance(value, list):
        if not value:
            raise ConfigError(f"{group} [] is empty: write {group}=none, or names of {menu}")
        twice = next((name for name in value if value.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"{group}: '{twice}' is given twice")
    elif isinstance(value, list):
        raise ConfigError(f"{group} takes one choice and not a list: write {group}=NAME, one of {menu}")
    for name in value if isinstance(value, list) else [value]:
        text = _text(name)
        if not isinstance(name, str) or "/" in name or not name:
            raise ConfigError(f"{group} '{text}' is not one of {menu}{did_you_mean(text, menu.split(', '))}")


def _text(value: Any) -> str:
    """A value of Hydra's parser as it would be typed."""
    return {None: "null", True: "true", False: "false"}.get(value, str(value)) if _plain(value) else str(value)


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _explain(error: Exception, overrides: Sequence[Override], config_dir: str | None) -> str:
    """What a library's exception says, in one line that names the key."""
    text = one_line(str(error).partition("See https")[0])
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _missing(error.missing_cfg_file, error.options, config_dir)
    cause = error.__cause__ if isinstance(error, HydraException) else error
    if isinstance(cause, (ConfigKeyError, ConfigAttributeError)) and cause.full_key:
        return _unknown_key(str(cause.full_key), overrides)
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return f"{cause.full_key}: {one_line(cause.msg or cause).partition(' full_key:')[0]}"
    if text.startswith("Ambiguous value"):
        several = next(o for o in overrides if o.is_sweep_override())
        key, values = several.get_key_element(), str(several.input_line).partition("=")[2]
        return f"{several.input_line} has several values: -m sweeps over them; a list is {key}=[{values}]"
    if isinstance(error, yaml.YAMLError):
        return f"a YAML file cannot be read: {text}"
    if isinstance(error, HydraException):
        return re.sub(r" (To append to your|Did you mean to override|Config search path:).*", "", text)
    return f"{type(error).__name__}: {text}"


def _missing(name: str, options: Sequence[str] | None, config_dir: str | None) -> str:
    """A YAML file that is not there: a choice of a group, or the config itself."""
    group, _, choice = name.rpartition("/")
    known = list(options) if options else group_choices(group, config_dir)
    label = group or "--config-name"
    menu = f" one of {', '.join(known)}" if known else " there"
    return f"{label} '{choice}' is not{menu}{did_you_mean(choice, known)}"


def _unknown_key(key: str, overrides: Sequence[Override]) -> str:
    """A key that does not exist, as it was typed, with those that do."""
    typed = next((o.key_or_group for o in overrides if f"{o.key_or_group}.".startswith(f"{key}.")), key)
    tree: Any = OmegaConf.to_container(_tree(overrides))
    place, inside, leaf = "", tree, key
    for part in key.split("."):
        leaf = part
        if not isinstance(inside.get(part), Mapping):
            break
        place, inside = f"{place}.{part}" if place else part, inside[part]
    if place.startswith("hydra") or key.startswith("hydra"):
        return f"unknown key '{typed}'; `lab train --cfg hydra` shows Hydra's own"
    if not place:
        elsewhere = [path for path in leaves(tree) if path.rpartition(".")[2] == typed]
        near = f"; did you mean '{elsewhere[0]}'?" if elsewhere else did_you_mean(leaf, [*tree, *ALIASES])
        return f"unknown key '{typed}': the keys are {', '.join(sorted(tree))}{near}"
    if leaf in inside:
        return f"unknown key '{typed}': {place}.{leaf} is a value and has no keys"
    near = did_you_mean(leaf, inside).replace("mean '", f"mean '{place}.")
    owner = f"{place}={inside['name']}" if place in choices.GROUPS and "name" in inside else place
    keys = ", ".join(name for name in inside if name != "name") or "no keys"
    return f"unknown key '{typed}': {owner} has {keys}{_owners(place, leaf)}{near}"


def _owners(group: str, key: str) -> str:
    """Which choices have a key that the chosen one has not."""
    if group not in choices.GROUPS:
        return ""
    if group in choices.COMBINED:
        return f"; {group}=[{key}] chooses it" if key in group_choices(group) else ""
    files = [conf_dir() / group / f"{name}.yaml" for name in group_choices(group)]
    owners = [path.stem for path in files if key in yaml.safe_load(path.read_text(encoding="utf-8"))]
    return f"; it is a key of {group}={' or '.join(owners)}" if owners else ""


def _tree(overrides: Sequence[Override]) -> DictConfig:
    """The composition of what was chosen, or where that is not possible of the defaults."""
    chosen = [str(o.input_line) for o in overrides if o.key_or_group in {*choices.GROUPS, "model"}]
    with suppress(HydraException, OmegaConfBaseException):
        return compose_tree([word for word in chosen if "," not in word or "[" in word])
    return compose_tree([])


def leaves(tree: object, prefix: str = "") -> Iterator[str]:
    """The dotted keys of all values."""
    if not isinstance(tree, Mapping):
        yield prefix
        return
    for key, value in tree.items():
        yield from leaves(value, f"{prefix}.{key}" if prefix else str(key))


def group_choices(group: str, config_dir: str | None = None) -> list[str]:
    """The YAML stems of a group, the user's own folder included."""
    folders = [conf_dir() / group] + ([Path(config_dir) / group] if config_dir else [])
    return sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")})


def complete_override(words: Sequence[str], word: str, *, config_dir: str | None = None) -> list[str]:
    """What Hydra would make of the word that is being typed after these.

    In a list or a sweep, ``stability=[qk_norm,z`` or ``norm=none,r``, the last name is completed.
    """
    from hydra.plugins.completion_plugin import DefaultCompletionPlugin

    own = spelled(word)
    before = re.match(r"[\w/]+=\[?(?:\w+,)*", own)
    head = before[0] if before and re.search(r"[\[,]", before[0]) else ""
    asked = f"{head.partition('=')[0]}={own.removeprefix(head)}" if head else own
    with hydra_here() as hydra:
        plugin = DefaultCompletionPlugin(hydra.config_loader())
        flags = [flag for flag in words if flag in ("-m", "--multirun")]
        given = [spelled(given) for given in words if "=" in given]
        line = " ".join([*flags, *search_path(config_dir), *given, asked])
        found = plugin._query(config_name=CONFIG_NAME, line=line)
    if head:
        found = [head + match.partition("=")[2] for match in found]
    if own != word:  # given in another spelling
        there, here = own.partition("=")[0].split(".")[0], re.split(r"[.=]", word)[0]
        found = [here + match.removeprefix(there) for match in found]
    return [match for match in found if word.startswith("hydra") or not match.startswith("hydra")]
