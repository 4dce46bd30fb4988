"""A preset's configuration and model, put together from the YAML files without Hydra: a tenth of its time."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from omegaconf import OmegaConf

from lab import choices, preset
from lab.config import AttnPath, Device, Precision, RunConfig
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
        if isinstance(entry, dict) and not next(iter(entry)).startswith("override "):
            chosen |= entry
    for entry in preset.read(name)["defaults"]:
        if isinstance(entry, dict):
            chosen |= {key.removeprefix("override /"): value for key, value in entry.items()}
    return chosen


def _section(group: str, choice: Any) -> Any:
    if group in choices.COMBINED:
        return {name: _section_of(group, name) for name in choice}
    return _section_of(group, choice)


def _section_of(group: str, choice: str) -> dict[str, Any]:
    section = dict(_file(f"{group}/{choice}.yaml"))
    assert "defaults" not in section, f"{group}={choice} brings choices of its own: compose it with Hydra"
    return section


def configuration(name: str, changed: Mapping[str, Any], *, path: str = "plain") -> RunConfig:
    """What ``lab train preset=NAME`` would run with some changes, on a CPU in fp32.

    ``changed`` holds choices by group, ``norm``, and values by key, ``norm.eps``.
    """
    chosen = _choices(name)
    chosen |= {key: value for key, value in changed.items() if key in chosen}
    tree = {key: value for key, value in _file("train.yaml").items() if key not in ("defaults", "hydra")}
    for group, choice in chosen.items():
        tree[group] = _section(group, choice)
    tree["preset"] = preset.read(name)["preset"]
    made = OmegaConf.create(tree)
    values = {key: value for key, value in changed.items() if key not in chosen}
    for key, value in values.items():
        parent, _, leaf = key.rpartition(".")
        assert leaf in OmegaConf.select(made, parent), f"{name} has no key {key}"
        OmegaConf.update(made, key, value)
    config = RunConfig.decode(made, values)
    return resolve(replace(config, device=Device.cpu, precision=Precision.fp32, attn_path=AttnPath(path)))


def model(config: RunConfig, *, vocab_size: int) -> Transformer:
    """The model, without dropout."""
    return config.architecture(vocab_size).build(study_seed=0, seed=1).eval()
