"""What a word of the command line should have been: menus of groups, keys of sections, the nearest name."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from lab import choices
from lab.errors import ConfigError, did_you_mean
from lab.paths import conf_dir

ALIASES = {"attention": "attn"}
"""Other spellings of a group's name that the command line takes."""

STUDY_KEY = re.compile(r"study\.(tiers\.[\w-]+\.\w+|(seeds|lr|stats|gate)\.\w+|max_epochs|measures|primary|match)=")
"""Keys of a study that its file may leave out, and that are given like any other all the same."""


def spelled(word: str) -> str:
    """An override with its group's name in the project's own spelling; overrides in ``match.to`` and ids quoted.

    What a study's file may leave out is set, wherever it comes from; the study's decoder knows all its keys.
    """
    if word.startswith("match.to=[") and word.endswith("]") and not re.search(r"[\"']", word):
        inner = re.split(r",(?![^\[]*\])", word.removeprefix("match.to=[").removesuffix("]"))
        return f"match.to=[{','.join(json.dumps(spelled(part)) for part in inner if part)}]"
    if re.fullmatch(r"init_from=[\w,]*\d[\w,]*", word):  # an id may look like a number: 12e456789012
        ids = word.removeprefix("init_from=").split(",")
        return f"init_from={','.join(part if part == 'null' else json.dumps(part) for part in ids)}"
    if STUDY_KEY.match(word):
        return f"++{word}"
    match = re.match(r"([+~]*)(\w+)([.=@].*|$)", word, re.DOTALL)
    if match is None or match[2] not in ALIASES:
        return word
    return f"{match[1]}{ALIASES[match[2]]}{match[3]}"


def group_choices(group: str, config_dir: str | None = None) -> list[str]:
    """The YAML stems of a group, the user's own folder included."""
    folders = [conf_dir() / group] + ([Path(config_dir) / group] if config_dir else [])
    return sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")})


def check_choice(group: str, value: Any, menu: str) -> None:
    """Refuse what a group cannot be set to.

    Raises:
        ConfigError: names the group and its choices.
    """
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


def check_tiers(study: str, keys: Sequence[str], folders: Sequence[Path]) -> None:
    """Refuse a key of a tier that the study's file has not: ``spelled`` lets keys be set where there were none.

    Args:
        study: its name.
        keys: those that were given.
        folders: configuration folders, the last that has the file counts.

    Raises:
        ConfigError: names the tier and those that there are.
    """
    given = [key.split(".")[2] for key in keys if re.match(r"study\.tiers\.[^.]", key)]
    file = next((path for folder in folders[::-1] if (path := folder / "study" / f"{study}.yaml").is_file()), None)
    if not given or file is None:
        return
    values = OmegaConf.to_container(OmegaConf.load(file))
    tiers = (values.get("study") or {}).get("tiers") or {} if isinstance(values, dict) else {}
    for tier in given:
        if tier not in tiers:
            has = f"the tiers {', '.join(tiers)}" if tiers else "no tiers"
            raise ConfigError(f"study.tiers.{tier}: study {study} has {has}{did_you_mean(tier, tiers)}")


def _text(value: Any) -> str:
    """A value of Hydra's parser as it would be typed."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def missing(name: str, options: Sequence[str] | None, config_dir: str | None) -> str:
    """A YAML file that is not there: a choice of a group, or the config itself."""
    group, _, choice = name.rpartition("/")
    known = list(options) if options else group_choices(group, config_dir)
    label = group or "--config-name"
    menu = f" one of {', '.join(known)}" if known else " there"
    return f"{label} '{choice}' is not{menu}{did_you_mean(choice, known)}"


def unknown_key(key: str, typed: str, tree: Mapping[str, Any]) -> str:
    """A key that does not exist in the composed values, with those that do.

    Args:
        key: the first part of the key that is not there, and what leads to it.
        typed: the whole key as it was given.
        tree: all values.
    """
    place, leaf = "", key
    inside: Any = tree
    for part in key.split("."):
        leaf = part
        if not isinstance(inside.get(part), Mapping):
            break
        place, inside = f"{place}.{part}" if place else part, inside[part]
    if place.startswith("hydra") or key.startswith("hydra"):
        return f"unknown key '{typed}'; `lab train --cfg hydra` shows Hydra's own"
    if not place:
        elsewhere = [path for path in _leaves(tree) if path.rpartition(".")[2] == typed]
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
    owners = [path.stem for path in files if key in OmegaConf.load(path)]
    return f"; it is a key of {group}={' or '.join(owners)}" if owners else ""


def _leaves(tree: object, prefix: str = "") -> Iterator[str]:
    """The dotted keys of all values."""
    if not isinstance(tree, Mapping):
        yield prefix
        return
    for key, value in tree.items():
        yield from _leaves(value, f"{prefix}.{key}" if prefix else str(key))
