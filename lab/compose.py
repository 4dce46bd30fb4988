"""Hydra's side of the seam: composing configurations outside `lab train`, and saying its errors in one line."""

import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException, MissingConfigException
from hydra.plugins.completion_plugin import DefaultCompletionPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from lab import choices, preset
from lab.errors import ConfigError, LabError, one_line
from lab.hints import check_choice, check_tiers, group_choices, missing, spelled, unknown_key
from lab.paths import conf_dir

if TYPE_CHECKING:
    from lab.config import RunConfig
    from lab.study.study import Study

CONFIG_NAME = "train"

OPTIONAL = "study"
"""The group of which nothing is chosen by default."""


def compose_config(overrides: Sequence[str], *, config_dir: str | None = None) -> "RunConfig":
    """What `lab train` would run with these overrides.

    Raises:
        ConfigError: an override is refused; the message names it.
    """
    words = [spelled(word) for word in overrides]
    with one_line_errors(words, config_dir=config_dir):
        tree = compose_tree([*words, *search_path(config_dir)])
    from lab.config import RunConfig
    from lab.study.settings import refuse_alone

    with one_line_errors(words, config_dir=config_dir):
        refuse_alone(cast(dict[str, Any], tree))
        return RunConfig.decode(tree, preset.given_keys(words))


def compose_study(overrides: Sequence[str], *, config_dir: str | None = None) -> tuple["Study", tuple[str, ...]]:
    """As ``compose_whole_study``, at its tier: what `lab train` would run."""
    whole, tier, own = compose_whole_study(overrides, config_dir=config_dir)
    return whole.at(tier), own


def compose_whole_study(
    overrides: Sequence[str], *, config_dir: str | None = None
) -> tuple["Study", str | None, tuple[str, ...]]:
    """The study with all its tiers, the tier that is asked for, and the words that all its runs get.

    Raises:
        ConfigError: an override is refused, or the study.
    """
    words = [spelled(word) for word in overrides]
    with one_line_errors(words, config_dir=config_dir):
        parsed = [parse_override(word) for word in words]
        name = next(
            (str(o.value()) for o in parsed if o.key_or_group == "study" and not o.is_sweep_override()), None
        )
        if name is None:
            raise ConfigError(f"study=NAME is missing: one of {', '.join(group_choices('study', config_dir))}")
        several = next((o.input_line for o in parsed if o.is_sweep_override()), None)
        if several is not None:
            raise ConfigError(f"{several} has several values: a study says itself what its runs differ in")
        tree = compose_tree([*words, *search_path(config_dir)])
    from lab.config import SWEEP_KEYS
    from lab.study.file import decode, refuse_strays
    from lab.study.settings import SweepSettings

    refuse_strays(name, conf_dirs(config_dir)[::-1])
    study = decode(tree["study"], name)
    own = [word for word, o in zip(words, parsed, strict=True) if _top(o) not in (*SWEEP_KEYS, "hydra")]
    return study, SweepSettings.decode(cast(dict[str, Any], tree)).tier, tuple(own)


def _top(override: Override) -> str:
    """The section or group that an override is about."""
    return re.split(r"[./]", override.key_or_group)[0]


def match_target(config: "RunConfig") -> "RunConfig | None":
    """The configuration that a run is to be matched to; None where it is to be matched to nothing.

    Raises:
        ConfigError: an override of ``match.to`` is refused.
    """
    if config.match.unit is None:
        if config.match.to:
            raise ConfigError(f"match.to {config.match.to} needs match=params or match=flops")
        return None
    try:
        target = compose_config(config.match.to)
    except ConfigError as error:
        raise ConfigError(f"match.to: {error}") from error
    if target.match.unit is not None:
        raise ConfigError(f"match.to {config.match.to} is matched to something itself, which cannot be a target")
    return target


def compose_tree(overrides: Sequence[str]) -> DictConfig:
    """Hydra's composition of conf/train.yaml with overrides, without the ``hydra`` node."""
    with hydra_here():
        return compose(CONFIG_NAME, overrides=list(overrides))


def conf_dirs(config_dir: str | None) -> list[Path]:
    """Where configuration files are: lab's folder, and the user's own."""
    return [conf_dir(), *([Path(config_dir)] if config_dir else [])]


@contextmanager
def hydra_here() -> Iterator[GlobalHydra]:
    """Hydra over conf/, whatever state an earlier use in this process left it in; that state comes back after."""
    instance = GlobalHydra.instance()
    before = instance.hydra
    instance.clear()
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(conf_dir())):
            yield GlobalHydra.instance()
    finally:
        GlobalHydra.instance().hydra = before


def search_path(config_dir: str | None) -> list[str]:
    """The override that makes Hydra look in a folder of the user's too, as ``--config-dir`` does."""
    if config_dir is None:
        return []
    folder = str(Path(config_dir).resolve()).replace("\\", "\\\\").replace("'", "\\'")
    return [f"hydra.searchpath=['file://{folder}']"]


@contextmanager
def one_line_errors(words: Sequence[str], *, config_dir: str | None = None) -> Iterator[None]:
    """Turn what Hydra and OmegaConf raise into a ConfigError of one line that names the key.

    Raises:
        ConfigError: a word is refused, before or while the body runs.
    """
    if config_dir is not None and not Path(config_dir).is_dir():
        raise ConfigError(f"--config-dir '{config_dir}' is not a folder")
    overrides = [parse_override(word) for word in words]
    for override in overrides:
        _check(override, config_dir)
    study = [o.value() for o in overrides if o.key_or_group == OPTIONAL and not o.is_sweep_override()]
    check_tiers("".join(map(str, study)), [override.key_or_group for override in overrides], conf_dirs(config_dir))
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


def parse_override(word: str) -> Override:
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
    if isinstance(value, Glob):
        if not value.filter(known):
            raise ConfigError(f"'{word}' fits no choice of {group}, which are {menu}")
        return
    for chosen in value.list if override.is_choice_sweep() else [value]:
        check_choice(group, chosen, menu)
        if group == OPTIONAL and chosen not in known:  # of which Hydra takes any name
            raise ConfigError(missing(f"{group}/{chosen}", known, config_dir))


def _explain(error: Exception, overrides: Sequence[Override], config_dir: str | None) -> str:
    """What a library's exception says, in one line that names the key."""
    text = one_line(str(error).partition("See https")[0])
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return missing(error.missing_cfg_file, error.options, config_dir)
    cause = error.__cause__ if isinstance(error, HydraException) else error
    if isinstance(cause, (ConfigKeyError, ConfigAttributeError)) and cause.full_key:
        key = str(cause.full_key)
        typed = next((o.key_or_group for o in overrides if f"{o.key_or_group}.".startswith(f"{key}.")), key)
        return unknown_key(key, typed, cast(dict[str, Any], OmegaConf.to_container(_tree(overrides, config_dir))))
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return f"{cause.full_key}: {str(cause.msg or cause).splitlines()[0]}"
    if text.startswith("Ambiguous value"):
        several = next(o for o in overrides if o.is_sweep_override())
        key, values = several.get_key_element(), str(several.input_line).partition("=")[2]
        return f"{several.input_line} has several values: -m sweeps over them; a list is {key}=[{values}]"
    if _package(type(error).__module__) == "yaml":
        return f"a YAML file cannot be read: {text}"
    if isinstance(error, HydraException):
        return re.sub(r" (To append to your|Did you mean to override|Config search path:).*", "", text)
    return f"{type(error).__name__}: {text}"


def _tree(overrides: Sequence[Override], config_dir: str | None) -> DictConfig:
    """The composition of what was chosen, or where that is not possible of the defaults."""
    chosen = [str(o.input_line) for o in overrides if o.key_or_group in {*choices.GROUPS, "model", OPTIONAL}]
    with suppress(HydraException, OmegaConfBaseException):
        single = [word for word in chosen if "," not in word or "[" in word]
        return compose_tree([*single, *search_path(config_dir)])
    return compose_tree([])


class _Completion(DefaultCompletionPlugin):
    """Hydra's completion, quicker where a group's name is typed: Hydra reads the configuration twice a group."""

    folders: tuple[Path, ...]

    def _query_config_groups(self, word: str, config_name: str | None, words: list[str]) -> tuple[list[str], bool]:
        if not re.fullmatch(r"\w*", word) or word.startswith("hydra"):
            found: tuple[list[str], bool] = super()._query_config_groups(word, config_name, words)
            return found
        groups = {path.parent.name for folder in self.folders for path in folder.glob("*/*.yaml")}
        return [f"{group}=" for group in sorted(groups) if group.startswith(word)], False


def complete_override(words: Sequence[str], word: str, *, config_dir: str | None = None) -> list[str]:
    """What Hydra would make of the word that is being typed after these.

    In a list or a sweep, ``stability=[qk_norm,z`` or ``norm=none,r``, the last name is completed.
    """
    own = spelled(word)
    before = re.match(r"[\w/]+=\[?(?:\w+,)*", own)
    head = before[0] if before and re.search(r"[\[,]", before[0]) else ""
    asked = f"{head.partition('=')[0]}={own.removeprefix(head)}" if head else own
    with hydra_here() as hydra:
        plugin = _Completion(hydra.config_loader())
        plugin.folders = (conf_dir(), Path(config_dir)) if config_dir else (conf_dir(),)
        flags = [flag for flag in words if flag in ("-m", "--multirun")]
        given = [spelled(given) for given in words if "=" in given]
        line = " ".join([*flags, *search_path(config_dir), *given, asked])
        found = plugin._query(config_name=CONFIG_NAME, line=line)
    if head:
        found = [head + match.partition("=")[2] for match in found]
    if own != word:  # given in another spelling
        there, here = re.split(r"[.=]", own)[0], re.split(r"[.=]", word)[0]
        found = [here + match.removeprefix(there) for match in found]
    return [match for match in found if word.startswith("hydra") or not match.startswith("hydra")]
