"""Settings as Hydra's overrides: written so that they are read back as they were, joined, and compared.

Settings are kept by key, each value as the text that follows ``=`` in an override. One rule says where a key goes:
``attn.n_kv_heads`` goes to every run whose attention has it, and to no other. A key that no choice among the runs
has is left where it stands, for Hydra to refuse.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from lab import choices
from lab.errors import ConfigError
from lab.paths import conf_dir

Settings = dict[str, str]
"""Override keys, each with the text of its value."""

Keys = Callable[[str, str], Collection[str] | None]
"""From a group and one of its choices to the keys of that choice; None where there is no such choice."""

_BARE = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)
_SPECIAL = ("null", "true", "false", "inf", "nan")


def text(value: Any) -> str:
    """A value of YAML as Hydra's override grammar reads it back.

    Raises:
        ConfigError: it is a section, which no override can be.
    """
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(text, value))}]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if not isinstance(value, str):
        raise ConfigError(f"{value!r} is a section: write each of its keys as KEY.KEY: VALUE")
    if _BARE.fullmatch(value) and value.lower() not in _SPECIAL:
        return value
    return quoted(value)


def quoted(value: str) -> str:
    """A text between single quotes; backslashes count double only in front of a quote."""
    inner = re.sub(r"(\\*)'", r"\1\1\\'", value)
    trailing = len(inner) - len(inner.rstrip("\\"))
    return "'" + inner + "\\" * trailing + "'"


def word(key: str, value: Any) -> str:
    """One override."""
    return f"{key}={text(value)}"


def words(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The overrides of settings."""
    return tuple(f"{key}={value}" for key, value in settings.items())


def settings(overrides: Iterable[str]) -> Settings:
    """Overrides by their keys; of two with one key the later counts, as Hydra has it."""
    return {key: value for key, _, value in (override.partition("=") for override in overrides)}


def names(value: str) -> list[str]:
    """The choices that a group's value names: ``[qk_norm,z_loss]`` and ``qk_norm`` alike."""
    inner = value.strip().removeprefix("[").removesuffix("]")
    return [name for part in inner.split(",") if (name := part.strip().strip("'\""))]


def comparable(given: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """What is equal for settings that mean the same: the order of combined choices does not count."""
    return frozenset(
        (key, ",".join(sorted(names(value))) if key in choices.COMBINED else value) for key, value in given.items()
    )


def yaml_keys(folders: Sequence[Path | str] = ()) -> Keys:
    """The keys of choices by their YAML files, in the shipped tree and in other folders."""
    return lru_cache(maxsize=None)(lambda group, name: _keys([*map(Path, folders), conf_dir()], group, name))


def _keys(folders: Sequence[Path], group: str, name: str) -> Collection[str] | None:
    file = next((path for folder in folders if (path := folder / group / f"{name}.yaml").is_file()), None)
    values = OmegaConf.to_container(OmegaConf.load(file)) if file else None
    return frozenset(map(str, values)) if isinstance(values, dict) else None


def applicable(
    rows: Sequence[Mapping[str, str]], keys: Keys, fixed: Sequence[Collection[str]] | None = None
) -> list[Settings]:
    """The settings of several runs, each key left only where the choice of its group has it.

    Args:
        rows: the settings of each run.
        keys: of the choices.
        fixed: for each run keys that are left in any case, so that a mistake in them is refused.
    """
    kept = [dict(row) for row in rows]
    for key in dict.fromkeys(key for row in rows for key in row):
        with_key = [index for index, row in enumerate(rows) if key in row]
        without = [
            index for index in with_key if not (fixed and key in fixed[index]) and not _has(rows[index], key, keys)
        ]
        if len(without) < len(with_key):
            for index in without:
                del kept[index][key]
    return kept


def _has(row: Mapping[str, str], key: str, keys: Keys) -> bool:
    """Whether the choice that a run makes has a key; true where the run does not say what it chooses."""
    group, _, rest = key.lstrip("+").partition(".")
    if group not in choices.GROUPS or not rest or group not in row:
        return True
    first = rest.partition(".")[0]
    chosen = names(row[group])
    if group in choices.COMBINED:
        return first in chosen
    known = keys(group, chosen[0]) if len(chosen) == 1 else None
    return known is None or first in known


def without_redundant(rows: Sequence[Sequence[str]], keys: Keys) -> list[list[str]]:
    """The overrides of a sweep's runs: keys only where their choice has them, and each run once.

    ``attn=mha,gqa attn.n_kv_heads=1,2`` is three runs and not four, since ``mha`` has no ``n_kv_heads``.
    """
    found = applicable([settings(row) for row in rows], keys)
    first = {comparable(row): row for row in reversed(found)}
    return [
        [override for override in given if override.partition("=")[0] in row]
        for given, row in zip(rows, found, strict=True)
        if first[comparable(row)] is row
    ]
