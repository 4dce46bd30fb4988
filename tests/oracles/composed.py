"""A preset's configuration and model, put together from the YAML files without Hydra: a tenth of its time."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from omegaconf import OmegaConf

from lab import choices
from lab.config import AttnPath, RunConfig
from lab.model.transformer import Transformer
from lab.paths import conf_dir
from lab.training.resolve import resolve


@functools.cache
def _file(path: str) -> dict[str, Any]:
    return OmegaConf.to_container(OmegaConf.load(conf_dir() / path))


def _choices(name: str) -> dict[str, Any]:
    """Group to choice: those of conf/train.yaml, some overridden by the preset."""
    chosen: dict[str, Any] = {}
    for entry in _file("train.yaml")["defaults"]:
        if isinstance(entry, dict) and not next(iter(entry)).startswith(("override ", "optional ")):
            chosen |= entry
    for entry in _file(f"preset/{name}.yaml")["defaults"]:
        if isinstance(entry, dict):
            chosen |= {key.removeprefix("override /"): value for key, value in entry.items()}
    return chosen


def _section(group: str, choice: Any) -> dict[str, Any]:
    if group in choices.COMBINED:
        return {name: _section_of(group, name) for name in choice}
    return _section_of(group, choice)


def _section_of(group: str, choice: str) -> dict[str, Any]:
    section = dict(_file(f"{group}/{choice}.yaml"))
    assert "defaults" not in section, f"{group}={choice} brings choices of its own: compose it with Hydra"
    return section


def configuration(name: str, changed: Mapping[str, Any]) -> RunConfig:
    """What ``lab train preset=NAME`` would run with some changes, on a CPU in fp32.

    ``changed`` holds choices by group, ``norm``, and values by key, ``norm.eps``; where a choice was changed, keys
    that the new one lacks are left out.
    """
    chosen = _choices(name)
    replaced = {key: value for key, value in changed.items() if key in chosen}
    tree = {key: value for key, value in _file("train.yaml").items() if key not in ("defaults", "hydra")}
    for group, choice in (chosen | replaced).items():
        tree[group] = _section(group, choice)
    tree["preset"] = _file(f"preset/{name}.yaml")["preset"]
    given = {"device": "cpu", "precision": "fp32", "threads": 1}
    given |= {key: value for key, value in changed.items() if key not in chosen}
    for key, value in given.items():
        *path, leaf = key.split(".")
        section = functools.reduce(lambda node, part: node.get(part, {}), path, tree)
        if leaf in section:
            section[leaf] = value
        else:
            assert path[0] in replaced, f"preset {name} has no key {key}"
    return RunConfig.decode(tree, given)


def model(config: RunConfig, *, path: str, vocab_size: int) -> Transformer:
    """The model with attention computed one way or the other, without dropout."""
    config = resolve(replace(config, attn_path=AttnPath(path)))
    return config.architecture(vocab_size).build(study_seed=0, seed=1).eval()
