"""Hydra's side of the seam: composing configurations outside `lab train`, and saying its errors in one line."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lab import choices
from lab.config import RunConfig
from lab.errors import ConfigError, LabError, did_you_mean, one_line
from lab.paths import conf_dir

CONFIG_NAME = "train"

ALIASES = {"attention": "attn"}
"""Other spellings of a group's name that the command line takes."""


def compose_config(overrides: Sequence[str], *, config_dir: str | None = None) -> RunConfig:
    """What `lab train` would run with these overrides.

    Raises:
        ConfigError: an override is refused; the message names it.
    """
    overrides = [spelled(word) for word in overrides]
    search = [f"hydra.searchpath=[file://{Path(config_dir).resolve()}]"] if config_dir else []
    with one_line_errors(overrides, config_dir=config_dir):
        return RunConfig.decode(compose_tree([*overrides, *search]))


def compose_tree(overrides: Sequence[str]) -> DictConfig:
    """Hydra's composition of conf/train.yaml with overrides, without the ``hydra`` node."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(version_base="1.3", config_dir=str(conf_dir())):
        return compose(CONFIG_NAME, overrides=list(overrides))


def spelled(word: str) -> str:
    """An override with its group's name in the project's own spelling."""
    match = re.match(r"([+~]*)(\w+)([.=@].*|$)", word, re.DOTALL)
    if match is None or match[2] not in ALIASES:
        return word
    return f"{match[1]}{ALIASES[match[2]]}{match[3]}"


@contextmanager
def one_line_errors(overrides: Sequence[str], *, config_dir: str | None = None) -> Iterator[None]:
    """Turn what Hydra and OmegaConf raise into a ConfigError of one line that names the key."""
    try:
        yield
    except LabError:
        raise
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_explain(error, overrides, config_dir)) from error


def _explain(error: Exception, overrides: Sequence[str], config_dir: str | None) -> str:
    text = one_line(error)
    if match := re.search(r"Could not find '([\w./-]+)/([^'/]*)'", text):
        group, choice = match[1], match[2]
        known = group_choices(group, config_dir)
        return f"{group} '{choice}' is not one of {', '.join(known)}{did_you_mean(choice, known)}"
    if match := re.search(r"Could not override '([^']+)'", text):
        return _unknown_key(match[1], overrides)
    if match := re.search(r"Key '([^']+)' is not in struct", text):
        return _unknown_key(match[1], overrides)
    if isinstance(error, OmegaConfBaseException) and error.full_key:
        return f"{error.full_key}: {text.split(' full_key')[0]}"
    if match := re.search(r"(?:Error parsing override|in override|parsing) '([^']*)'", text):
        return f"{match[1]!r} cannot be read: write KEY=VALUE or KEY=[A,B] ({_parser_words(text)})"
    return text


def _parser_words(text: str) -> str:
    words = re.sub(r"^.*?Error parsing override '[^']*' ", "", text)
    return re.sub(r" See https?://\S+.*$", "", words)


def _unknown_key(key: str, overrides: Sequence[str]) -> str:
    """An unknown key as it was typed, with the nearest known one."""
    typed = [re.split(r"[=@]", word.lstrip("+~"))[0] for word in overrides]
    whole = next((word for word in typed if word == key or word.endswith(f".{key}")), key)
    known = known_keys(overrides)
    return f"unknown key '{whole}'{did_you_mean(whole, known)}"


def known_keys(overrides: Sequence[str]) -> list[str]:
    """Every key and group that could be meant, for suggestions: of the chosen components where they compose."""
    keys = {*choices.GROUPS, *ALIASES, "model", "train"}
    for words in ([word for word in overrides if _is_choice(word)], []):
        try:
            tree = compose_tree(words)
        except (HydraException, OmegaConfBaseException):
            continue
        keys |= set(_leaves(OmegaConf.to_container(tree), ""))
        break
    return sorted(keys)


def _is_choice(word: str) -> bool:
    return word.partition("=")[0] in {*choices.GROUPS, "model"}


def _leaves(tree: object, prefix: str) -> Iterator[str]:
    if not isinstance(tree, dict):
        yield prefix
        return
    for key, value in tree.items():
        yield from _leaves(value, f"{prefix}.{key}" if prefix else str(key))


def group_choices(group: str, config_dir: str | None = None) -> list[str]:
    """The YAML stems of a group, the user's own folder included."""
    folders = [conf_dir() / group] + ([Path(config_dir) / group] if config_dir else [])
    return sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")})
