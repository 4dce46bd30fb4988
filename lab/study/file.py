"""The study file, decoded and checked before anything runs; docs/studies.md describes each key.

``conf/study/NAME.yaml`` opens with ``# @package _global_`` and holds the section ``study``, and ``hydra`` for
settings of Hydra's.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from omegaconf import OmegaConf

from lab.decode import section, unknown
from lab.errors import ConfigError
from lab.study.check import check
from lab.study.published import Published
from lab.study.sections import Gate, Lr, Plain, Seeds, Stats, Tier, Variant
from lab.study.study import RESERVED, Study
from lab.study.words import Settings, text

T = TypeVar("T", Variant, Tier)

SECTIONS = (
    "set",
    "baseline",
    "variants",
    "axes",
    "contrasts",
    "seeds",
    "lr",
    "stats",
    "gate",
    "published",
    "tiers",
)


def decode(tree: Any, name: str) -> Study:
    """Make a study of the section ``study`` of a file called ``name``, and check it at each of its tiers.

    Raises:
        ConfigError: names the key, the value and what is allowed.
    """
    study = _study(OmegaConf.to_container(tree) if OmegaConf.is_config(tree) else tree, name)
    check(study)
    return study


def refuse_strays(name: str, folders: Sequence[Path]) -> None:
    """Refuse settings of runs that stand beside the section ``study`` of a file, where no run would find them.

    Args:
        name: the file's stem.
        folders: configuration folders, the first that has the file counts.

    Raises:
        ConfigError: names the key, and where it belongs.
    """
    path = next((path for folder in folders if (path := folder / "study" / f"{name}.yaml").is_file()), None)
    values = OmegaConf.to_container(OmegaConf.load(path)) if path else {}
    assert isinstance(values, dict)
    strays = [str(key) for key in values if key not in ("study", "hydra", "defaults")]
    entries = [
        entry for item in values.get("defaults", []) for entry in (item if isinstance(item, dict) else [item])
    ]
    strays += [str(entry) for entry in entries if not re.match(r"_self_|(override )?/?hydra/", str(entry))]
    if strays:
        raise ConfigError(f"{path}: '{strays[0]}' stands beside study: settings of the runs go to study.set")


def _study(tree: Any, name: str) -> Study:
    """The keys one by one, each checked by itself."""
    if not isinstance(tree, Mapping):
        raise ConfigError(f"study {tree!r} must be a section with keys of its own")
    plain_keys = [field.name for field in dataclasses.fields(Plain)]
    for key in tree:
        if key not in (*plain_keys, *SECTIONS):
            raise ConfigError(unknown("study.", str(key), [*plain_keys, *SECTIONS]))
    if "seeds" not in tree:
        raise ConfigError("study.seeds is not set")
    plain = section("study", Plain, {key: tree[key] for key in plain_keys if key in tree})
    baseline = tree.get("baseline") or {}
    named = baseline.get("name", "baseline") if isinstance(baseline, Mapping) else ""
    return Study(
        **dataclasses.asdict(plain),
        name=name,
        set=_settings("study.set", tree.get("set")),
        baseline=_named("study.baseline", Variant, baseline, str(named)),
        variants=tuple(_each("study.variants", Variant, tree.get("variants"))),
        axes=_axes(tree.get("axes")),
        contrasts=_contrasts(tree.get("contrasts", "auto")),
        seeds=section("study.seeds", Seeds, tree["seeds"]),
        lr=section("study.lr", Lr, tree.get("lr") or {}),
        stats=section("study.stats", Stats, tree.get("stats") or {}),
        published=tuple(_published(tree.get("published"))),
        gate=section("study.gate", Gate, tree["gate"]) if tree.get("gate") is not None else None,
        tiers={tier.name: tier for tier in _each("study.tiers", Tier, tree.get("tiers"))},
    )


def _published(values: Any) -> Iterator[Published]:
    """The claims one by one, named in messages by their ids."""
    if not isinstance(values or [], list):
        raise ConfigError(f"study.published {values!r} must be a list of sections, each with the id of a claim")
    for number, value in enumerate(values or []):
        name = value.get("claim") if isinstance(value, Mapping) else None
        yield section(f"study.published.{name or number + 1}", Published, value)


def _each(path: str, kind: type[T], values: Any) -> list[T]:
    """The sections of a section, by their names."""
    if values is None:
        return []
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path} {values!r} must be a section of names, each with keys of its own")
    return [_named(f"{path}.{name}", kind, value, str(name)) for name, value in values.items()]


def _named(path: str, kind: type[T], values: Any, name: str) -> T:
    """A section that has a name, and settings in ``set``."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path} {values!r} must be a section with keys of its own")
    if not re.fullmatch(r"[\w.-]+", name):
        raise ConfigError(f"{path}: '{name}' must be a name of letters, digits, '_', '-' and '.'")
    own = _settings(f"{path}.set", values.get("set"))
    rest = {key: value for key, value in values.items() if key != "set"}
    return dataclasses.replace(section(path, kind, rest | {"name": name}), set=own)


def _settings(path: str, values: Any) -> Settings:
    """Overrides by their keys."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path} {values!r} must be a section of settings, each KEY: VALUE")
    return {_key(path, key): _text(f"{path}.{key}", value) for key, value in values.items()}


def _key(path: str, key: Any) -> str:
    first = str(key).partition(".")[0]
    if first in RESERVED:
        raise ConfigError(f"{path}: '{key}' is not set here: {RESERVED[first]}")
    if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", str(key)):
        raise ConfigError(f"{path}: '{key}' must be a key as on the command line, such as norm or train.steps")
    return str(key)


def _text(path: str, value: Any) -> str:
    try:
        return text(value)
    except ConfigError as error:
        raise ConfigError(f"{path} {error}") from error


def _axes(values: Any) -> dict[str, list[str]]:
    """Keys with their values."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ConfigError(f"study.axes {values!r} must be a section of lists, each KEY: [VALUE, VALUE]")
    axes: dict[str, list[str]] = {}
    for key, several in values.items():
        path = f"study.axes.{key}"
        if not isinstance(several, list) or not several:
            raise ConfigError(f"{path} {several!r} must be a list of values, one or more")
        axes[_key("study.axes", key)] = [_text(path, value) for value in several]
    return axes


def _contrasts(values: Any) -> tuple[str, ...] | None:
    """Texts of sums and differences, or None for those of the design."""
    if values == "auto":
        return None
    if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
        raise ConfigError(f"study.contrasts {values!r} must be auto or a list of texts like [A - B]")
    return tuple(values)
