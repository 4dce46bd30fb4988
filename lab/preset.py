"""Presets: named architectures as choices of groups, and values that apply only where their choice stands.

A file ``conf/preset/NAME.yaml`` overrides groups by Hydra's own means. Its values are kept apart, keyed by group,
choice and key, ``attn.mla.kv_rank_share``, so that ``preset=deepseek_v2 attn=gqa`` drops what belongs to MLA; a key
that was given on the command line beats them. Sizes stay free: values are ratios where the published ones are.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from lab import choices
from lab.errors import ConfigError
from lab.paths import conf_dir

NONE = "none"
"""The preset that sets nothing."""

PUBLISHED = "published"
"""The value of ``preset_size`` that takes the sizes of the smallest published model."""


def names() -> list[str]:
    """The shipped presets, sorted, without ``none``."""
    return sorted(path.stem for path in (conf_dir() / "preset").glob("*.yaml") if path.stem != NONE)


def read(name: str) -> dict[str, Any]:
    """What a shipped preset's file says: ``defaults`` and ``preset``."""
    return dict(OmegaConf.to_container(OmegaConf.load(_file(name))))  # type: ignore[arg-type]


def is_shipped(name: str) -> bool:
    """Whether a preset comes with lab; others come from a folder of the user's."""
    return name != NONE and _file(name).is_file()


def _file(name: str) -> Path:
    return conf_dir() / "preset" / f"{name}.yaml"


def given_keys(words: Iterable[str]) -> list[str]:
    """The keys that overrides set, which a preset's values yield to."""
    return [word.lstrip("+").partition("=")[0] for word in words]


def apply(tree: dict[str, Any], given: Iterable[str]) -> None:
    """Put the values of the tree's preset where their choices stand, and leave its name alone in the tree.

    Args:
        tree: what was composed, interpolations not yet resolved; changed in place.
        given: the keys that were set by hand, which nothing overrides.

    Raises:
        ConfigError: the preset is not one, or its size is asked for and it has none.
    """
    preset = tree.get("preset")
    if not isinstance(preset, Mapping):  # a configuration that was decoded before
        return
    if not isinstance(preset.get("name"), str):
        raise ConfigError(f"preset {dict(preset)!r} has no name: use preset=NAME")
    kept = [key for key in given if key not in choices.GROUPS and key != "model"]  # a choice is no value
    values = dict(preset.get("values") or {})
    if tree.get("preset_size") == PUBLISHED:
        if not preset.get("published"):
            raise ConfigError(
                f"preset_size 'published' needs a preset with sizes; preset '{preset['name']}' has none"
            )
        values |= preset["published"]
    for path, value in values.items():
        section, key = _place(tree, str(path))
        where = _target(str(path))
        if section is not None and not any(f"{where}.".startswith(f"{word}.") for word in kept):
            section[key] = value
    tree["preset"] = preset["name"]


def _target(path: str) -> str:
    """The key that a preset's path means on the command line: ``attn.mla.eps`` is ``attn.eps``."""
    group, _, rest = path.partition(".")
    if group not in choices.GROUPS or group in choices.COMBINED:
        return path
    return f"{group}.{rest.partition('.')[2]}"


def _place(tree: dict[str, Any], path: str) -> tuple[dict[str, Any] | None, str]:
    """The section that a path's value goes to, None where its choice is not taken; and the key in it."""
    group, *inner, key = path.split(".")
    section = tree.get(group)
    if group not in choices.GROUPS:
        return (section if isinstance(section, dict) else None), key
    choice = inner[0]
    if group in choices.COMBINED:
        return (section.get(choice) if isinstance(section, dict) else None), key
    taken = isinstance(section, dict) and section.get("name") == choice
    return (section if taken else None), key
