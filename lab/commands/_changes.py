"""Overrides of a run that is done: the words of the command line, on what was saved and not on the defaults."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from lab import choices
from lab.compose import one_line_errors, parse_override
from lab.errors import ConfigError
from lab.hints import group_choices, missing, spelled, unknown_key
from lab.paths import conf_dir

if TYPE_CHECKING:
    from lab.config import RunConfig

FIXED = {
    "tokenizer": "the model knows no other tokens",
    "preset": "name the groups one by one",
    "preset_size": "weights have their sizes",
    "match": "weights have their sizes",
} | dict.fromkeys(
    ("seed", "study_seed", "fresh", "init_from", "optim", "schedule", "track", "train"), "nothing is trained"
)
"""What cannot be changed once a run is done, and why."""


def changed(config: "RunConfig", overrides: Sequence[str], *, config_dir: str | None = None) -> "RunConfig":
    """A run's configuration with overrides.

    ``stability=none`` or ``attn=gqa`` takes that choice with the values of its YAML; a choice that the run has
    already keeps the run's values, so that ``stability=[qk_norm]`` only takes the others away. ``attn.window=32``
    sets one value, in whatever order the words come.

    Raises:
        ConfigError: an override is refused; the message names it.
    """
    from lab.config import RunConfig

    words = [spelled(word) for word in overrides]
    tree = json.loads(json.dumps(config.as_dict()))
    with one_line_errors(words, config_dir=config_dir):
        parsed = [parse_override(word) for word in words]
        for override in parsed:
            _refuse(override.key_or_group, str(override.input_line), several=override.is_sweep_override())
        single = [(override.key_or_group, override.value()) for override in parsed]
        chosen = {key: value for key, value in single if group_choices(key, config_dir)}
        for group, value in chosen.items():
            tree[group] = _section(group, value, tree[group], config_dir)
        for key, value in single:
            if key not in chosen:
                _set(tree, key, value)
    return RunConfig.decode(tree)


def _refuse(key: str, word: str, *, several: bool) -> None:
    """Refuse what makes no sense for weights that are there.

    Raises:
        ConfigError: says why.
    """
    if several:
        raise ConfigError(f"{word} has several values: one at a time; a list is {key}=[A,B]")
    top = key.split(".")[0]
    if top in FIXED:
        raise ConfigError(f"{word}: {top} cannot be changed here: {FIXED[top]}")


def _section(group: str, value: Any, own: Mapping[str, Any], config_dir: str | None) -> dict[str, Any]:
    """The section of a group with the choice or choices that a word names."""
    if group not in choices.COMBINED:
        return dict(own) if value == own.get("name") else _choice(group, value, config_dir)
    names = value if isinstance(value, list) else [value]
    return {name: own[name] if name in own else _choice(group, name, config_dir) for name in names}


def _choice(group: str, name: str, config_dir: str | None) -> dict[str, Any]:
    """The values of a choice's YAML, interpolations as they are.

    Raises:
        ConfigError: there is no such choice.
    """
    folders = [*([Path(config_dir)] if config_dir else []), conf_dir()]
    file = next((path for f in folders if (path := f / group / f"{name}.yaml").is_file()), None)
    if file is None:
        raise ConfigError(missing(f"{group}/{name}", group_choices(group, config_dir), config_dir))
    values: Any = OmegaConf.to_container(OmegaConf.load(file))
    return {str(key): value for key, value in values.items() if key != "defaults"}


def _set(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set one value that is there.

    Raises:
        ConfigError: there is none.
    """
    *sections, leaf = key.split(".")
    inside: Any = tree
    for depth, part in enumerate(sections, start=1):
        if not isinstance(inside, dict) or part not in inside:
            raise ConfigError(unknown_key(".".join(sections[:depth]), key, tree))
        inside = inside[part]
    if not isinstance(inside, dict) or leaf not in inside:
        raise ConfigError(unknown_key(key, key, tree))
    inside[leaf] = value
