"""What a run's identity is made of, and what has no part in it."""

import json
import shutil
import socket
from enum import Enum

import pytest

from lab.runs.identity import NO_EFFECT, SOURCE, YOUNGER, completed, run_id, without
from lab.training.plan import plan

OVERRIDES = (
    (),
    (
        "stability=[qk_norm,z_loss]",
        "regularization=[dropout,weight_decay]",
        "attn=gqa",
        "position=learned",
        "norm=layernorm",
        "activation=gelu",
        "schedule=linear",
        "init=normal",
        "train.micro_batch_size=2",
        "train.eval_every=3",
        "model.head_dim=16",
    ),
)


def leaves(tree, path=()):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def changed(tree, path, value):
    """A copy with one leaf replaced."""
    copy = json.loads(json.dumps(tree))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def another(value):
    if value is None:
        return 1
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return [*value, "x"] if isinstance(value, list) else f"{value}x"


def identity(values, *, data="d", tokenizer="t"):
    return run_id(values, data_hash=data, tokenizer_hash=tokenizer)


@pytest.mark.parametrize("overrides", OVERRIDES, ids=["default", "others"])
def test_every_leaf_counts_but_for_those_without_effect(config, overrides):
    values = plan(config(*overrides)).config.as_dict()
    same = identity(values)
    seen = {same}
    paths = [".".join(path) for path, _ in leaves(values)]
    assert len(paths) > 40
    assert {"threads", "precision", "attn_path", "device", "seed", "study_seed", "data.name"} < set(paths)
    for path, value in leaves(values):
        other = identity(changed(values, path, another(value)))
        key = ".".join(path)
        if key in (*NO_EFFECT, *SOURCE) or path[0] in NO_EFFECT:
            assert other == same, key
        else:
            assert other not in seen, key
            seen.add(other)
    assert identity(values, data="e") not in seen
    assert identity(values, tokenizer="e") not in seen
    assert NO_EFFECT == (
        "fresh", "track", "train.checkpoint_every", "checkpoint", "data.file", "preset", "preset_size", "match",
    )  # fmt: skip


def test_another_runs_weights_count_by_what_they_are(config):
    values = plan(config()).config.as_dict()
    source = {"run": "a" * 12, "step": 20, "pool": None}
    ids = [identity(values)]
    ids += [
        run_id(values, data_hash="d", tokenizer_hash="t", source=source | change)
        for change in ({}, {"run": "b" * 12}, {"step": 21}, {"pool": "mean"})
    ]
    assert len(set(ids)) == 5
    assert identity(without(values, SOURCE)) == ids[0]  # as before there were such keys


def test_a_younger_key_counts_only_beside_what_older_runs_were_trained_with(config):
    values = plan(config()).config.as_dict()
    assert YOUNGER == {"compile": False, "data.ngram_rate": 0.0, "data.ngram_mask": False}
    assert values["compile"] is False
    assert identity(without(values, tuple(YOUNGER))) == identity(values)
    before = {**values, "data": {"name": "text", "file": []}}
    assert completed("data", before["data"]) == values["data"] | {"file": []}
    assert completed("train", {}) == {}


def test_order_of_keys_does_not_count(config):
    values = plan(config()).config.as_dict()
    assert identity(dict(reversed(values.items()))) == identity(values)


def test_nothing_of_the_machine_is_hashed(config, tmp_path, book):
    values = plan(config()).config.as_dict()
    text = json.dumps(without(values, NO_EFFECT))
    assert "/" not in text
    assert f'"{socket.gethostname()}"' not in text
    assert "auto" not in text


@pytest.mark.slow
def test_the_same_text_elsewhere_is_the_same_run(config, book, tmp_path):
    here = plan(config())
    shutil.copy(book, tmp_path / "other name.txt")
    there = plan(config(f"data.file='{tmp_path / 'other name.txt'}'"))
    assert there.run_id == here.run_id
    assert there.batches.hash(20) == here.batches.hash(20)
    (tmp_path / "changed.txt").write_bytes(book.read_bytes() + b".")
    assert plan(config(f"data.file={tmp_path / 'changed.txt'}")).run_id != here.run_id


@pytest.mark.slow
def test_spelling_does_not_count(config):
    same = plan(config()).run_id
    for overrides in (
        ("optim.beta2=9.50e-1", "attn_path=sdpa", "stability=[none]"),
        ("train.checkpoint_every=7", "fresh=true", "checkpoint.after=none"),
    ):
        assert plan(config(*overrides)).run_id == same, overrides
    assert plan(config("stability=[z_loss,qk_norm]")).run_id == plan(config("stability=[qk_norm,z_loss]")).run_id


@pytest.mark.slow
def test_what_auto_comes_to_counts(config):
    resolved = plan(config("threads=null", "precision=auto", "attn_path=auto", "device=auto")).config
    assert isinstance(resolved.threads, int)
    assert all(str(value) != "auto" for _, value in leaves(resolved.as_dict()) if isinstance(value, Enum))
    ids = {plan(config(word)).run_id for word in ("threads=1", "threads=2", "precision=bf16", "attn_path=plain")}
    assert len(ids) == 4


def test_without():
    tree = {"a": 1, "b": {"c": 2, "d": 3}, "e": {"c": 4}}
    assert without(tree, ("a", "b.c", "x.y")) == {"b": {"d": 3}, "e": {"c": 4}}
    assert without(tree, ("b",)) == {"a": 1, "e": {"c": 4}}
    assert tree == {"a": 1, "b": {"c": 2, "d": 3}, "e": {"c": 4}}
