"""Decoding: types, ranges and names, each refused with its key."""

import copy
import dataclasses
import json

import pytest
from omegaconf import OmegaConf

from lab.choices import names
from lab.compose import compose_tree
from lab.config import Device, RunConfig
from lab.errors import ConfigError

_TREE = {}
NORMS = ", ".join(names("norm"))


@pytest.fixture
def tree():
    """The default values, composed once."""
    if not _TREE:
        _TREE.update(OmegaConf.to_container(compose_tree([])))
    return copy.deepcopy(_TREE)


def put(tree, key, value):
    *sections, name = key.split(".")
    for section in sections:
        tree = tree[section]
    tree[name] = value


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("norm.eps", "abc", "norm.eps 'abc' must be a number"),
        ("norm.eps", None, "norm.eps null must be a number"),
        ("norm.eps", True, "norm.eps true must be a number"),
        ("norm.eps", [1], "norm.eps [1] must be a number"),
        ("norm.eps", float("inf"), "norm.eps inf must be > 0"),
        ("norm.epz", 1, "unknown key 'norm.epz': norm has eps; did you mean 'norm.eps'?"),
        ("norm", "rmsnorm", f"norm 'rmsnorm' is not a choice; use norm=NAME, one of {NORMS}"),
        ("norm.name", "rms", f"norm.name 'rms' is not one of {NORMS}; did you mean 'rmsnorm'?"),
        ("train.steps", 2.5, "train.steps 2.5 must be a whole number"),
        ("train.steps", False, "train.steps false must be a whole number"),
        ("train.steps", "???", "train.steps is not set"),
        ("train.eval_every", "x", "train.eval_every 'x' must be a whole number or null"),
        ("train.eval_every", 0, "train.eval_every 0 must be >= 1"),
        ("train", 3, "train 3 must be a section with keys of its own"),
        ("model.tie_embeddings", 3.5, "model.tie_embeddings 3.5 must be true or false"),
        ("device", "gpu", "device 'gpu' must be one of auto, cpu, cuda, mps"),
        ("precision", "bf17", "precision 'bf17' must be one of auto, fp32, bf16; did you mean 'bf16'?"),
        ("threads", 0, "threads 0 must be >= 1 and <= 1024"),
        ("sede", 1, "unknown key 'sede'"),
        ("stability", {}, "stability {} is not a choice"),
        ("seed", "${nope}", "seed: Interpolation key 'nope' not found"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(key, value, message, tree):
    put(tree, key, value)
    with pytest.raises(ConfigError) as refused:
        RunConfig.decode(tree)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("key", ["norm", "train", "train.steps", "norm.eps", "seed"])
def test_what_is_missing_is_named(key, tree):
    *sections, name = key.split(".")
    inner = tree
    for section in sections:
        inner = inner[section]
    del inner[name]
    with pytest.raises(ConfigError, match=rf"^{key} is not set$"):
        RunConfig.decode(tree)


def test_values_are_frozen_typed_and_survive_json(tree):
    config = RunConfig.decode(tree)
    assert config.device is Device.auto
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.norm.eps = 1.0
    assert RunConfig.decode(json.loads(json.dumps(config.as_dict()))) == config


def test_a_key_that_came_later_may_be_missing(tree):
    del tree["init_from"], tree["init_from_pool"]
    config = RunConfig.decode(tree)
    assert (config.init_from, config.init_from_pool) == (None, "mean")


def test_one_file_needs_no_brackets(tree):
    tree["data"] = {"name": "text", "file": "book.txt"}
    assert RunConfig.decode(tree).data.file == ["book.txt"]


def test_combined_choices_are_ordered_by_name(tree):
    tree["stability"] = {
        "z_loss": {"name": "z_loss", "weight": 1e-4, "variant": "squared_lse"},
        "attn_softcap": {"name": "attn_softcap", "cap": 50},
    }
    assert list(RunConfig.decode(tree).stability) == ["attn_softcap", "z_loss"]
