"""Runs that start from another run's weights."""

import json
import shutil

import pytest
import torch

from lab import cli
from lab.errors import ConfigError
from lab.report.variants import variants
from lab.runs.store import RunFolder
from lab.training.checkpoint import load_newest
from lab.training.evaluate import Evaluator
from lab.training.load import load_model
from lab.training.plan import plan
from lab.training.state import new_state
from training.folders import assert_same, resumed_from, steps, the_run

pytestmark = pytest.mark.slow

SHORT = ("train.steps=6", "train.checkpoint_every=2", "checkpoint.after=all")
HEADS = ("model.n_heads=4",)


@pytest.fixture
def source(elsewhere):
    """The folder of a run that is done, in another outputs folder."""
    return lambda *overrides: elsewhere(*SHORT, *HEADS, *overrides)


def started(planned):
    """The model at step 0."""
    state = new_state(planned.config, planned.architecture)
    planned.start.transfer.apply(state.model)
    return state.model


def test_the_same_model_starts_where_the_source_ended(source, train, config, outputs):
    folder = source()
    own = json.loads((folder / "result.json").read_text())
    words = (*SHORT, *HEADS, f"init_from={folder}", "schedule=linear", "train.eval_every=1")
    planned = plan(config(*words))
    tokens = planned.tokens
    evaluate = Evaluator(tokens.val, n_bytes=tokens.bytes["val"], seq_len=32, device="cpu", precision="fp32")
    assert evaluate(started(planned)).loss == own["final_loss"]
    trained = train(*words)
    assert trained.folder.name == planned.run_id
    assert trained.result["final_loss"] < own["final_loss"]
    first = json.loads((trained.folder / "metrics.jsonl").read_text().splitlines()[0])
    assert first["loss"] == pytest.approx(own["final_loss"], abs=0.2)
    start = trained.result["init_from"]
    assert (start["run"], start["step"], start["pool"]) == (own["id"], 6, None)
    assert (start["converted"], start["fresh"], start["dropped"]) == ({}, {}, {})
    assert sum(start["loaded"].values()) == len(planned.outline.state_dict())
    assert trained.result["config"]["init_from"] == own["id"]
    assert str(folder) not in (trained.folder / "result.json").read_text()
    assert plan(config(*words)).batches.hash(6) == own["hashes"]["batches"]


@pytest.mark.slow
def test_explain_tells_what_would_go_over(source, words, capsys):
    folder = source()
    line = ["explain", *words(*SHORT, *HEADS, "attn=mqa", f"init_from={folder}")]
    assert cli._run([*line, "--format", "json"]) == 0
    start = json.loads(capsys.readouterr().out)["init_from"]
    assert (start["run"], start["step"], sum(start["converted"].values())) == (folder.name, 6, 2)
    assert cli._run(line) == 0
    assert f"from run {folder.name} at step 6: 10 loaded, 2 converted, 0 fresh tensors" in capsys.readouterr().out


def test_fewer_heads_and_a_norm_more(source, train, outputs, caplog):
    folder = source()
    with caplog.at_level("INFO", logger="lab"):
        result = train(*SHORT, *HEADS, f"init_from={folder}", "attn=mqa", "stability=qk_norm").result
    start = result["init_from"]
    assert start["pool"] == "mean"
    assert start["converted"] == {"blocks.*.attn.k.weight": 1, "blocks.*.attn.v.weight": 1}
    assert set(start["fresh"]) == {f"blocks.*.attn.stability.qk_norm.{part}.gain" for part in "qk"}
    text = caplog.text
    assert f"starts from run {folder.name} at step 6" in text
    assert "converted, heads by mean: blocks.*.attn.k.weight, blocks.*.attn.v.weight" in text
    assert "fresh, the source has none: blocks.*.attn.stability.qk_norm.q.gain" in text


def test_what_is_fresh_is_drawn_as_without_a_source(source, config):
    folder = source()
    words = (*SHORT, *HEADS, "activation.d_ff=24")
    planned = plan(config(*words, f"init_from={folder}"))
    alone = new_state(plan(config(*words)).config, planned.architecture).model.state_dict()
    model = started(planned).state_dict()
    assert len(planned.start.transfer.reshaped) == 3
    assert all(torch.equal(model[name], alone[name]) for name in planned.start.transfer.fresh)
    assert not torch.equal(model["head.weight"], alone["head.weight"])


@pytest.mark.slow
def test_the_source_is_the_identity_and_not_its_path(source, config, tmp_path):
    folder = tmp_path / "source"
    shutil.copytree(source(), folder)
    shutil.copytree(folder, tmp_path / "copy")

    def name(*overrides):
        return plan(config(*SHORT, *HEADS, *overrides)).run_id

    here = name(f"init_from={folder}")
    assert name(f"init_from={tmp_path / 'copy'}") == here
    assert name(f"init_from={folder}", "init_from_pool=first") == here  # nothing is pooled
    assert name() == name("init_from_pool=first") != here
    pooled = {name(f"init_from={folder}", "attn=mqa", f"init_from_pool={pool}") for pool in ("mean", "first")}
    assert len(pooled) == 2
    (folder / "checkpoint" / "step-00000006.safetensors").unlink()
    assert load_newest(RunFolder(folder).checkpoints, most_steps=99)[1] == 4
    assert name(f"init_from={folder}") != here


def test_after_a_kill(source, kill_at, train, elsewhere, outputs):
    words = (*SHORT, *HEADS, f"init_from={source()}", "attn=mqa", "regularization=dropout")
    kill_at(5, *words)
    folder = the_run(outputs)
    assert steps(folder) == [1, 2, 3, 4]
    train(*words)
    assert resumed_from(folder) == [4]
    assert_same(folder, elsewhere(*words))


@pytest.mark.slow
def test_a_source_may_have_had_a_source(source, train, config):
    first = source()
    second = train(*SHORT, *HEADS, f"init_from={first}", "seed=2")
    loaded = load_model(RunFolder(second.folder))
    assert loaded.config.init_from == first.name
    assert plan(config(*SHORT, *HEADS, f"init_from={second.folder}")).start.run == second.folder.name


@pytest.mark.slow
def test_seeds_with_a_source_each_are_one_variant(source, train):
    records = [train(*SHORT, *HEADS).result]
    for seed in (1, 2):
        folder = source(f"seed={seed}")
        records.append(train(*SHORT, *HEADS, f"init_from={folder}", f"seed={seed}").result)
        records.append(train(*SHORT, *HEADS, f"init_from={folder}", f"seed={seed}", "attn=mqa").result)
    found = variants(records)
    assert sorted(len(variant.records) for variant in found) == [1, 2, 2]
    assert all("init_from=" in variant.label for variant in found)


def test_a_source_that_does_not_fit_is_refused_before_anything_is_written(source, config, outputs):
    folder = source()
    for overrides, message in (
        (("model.dim=64",), f"^init_from '{folder}': no tensor of run {folder.name} has the name and shape"),
        (("tokenizer=bpe", "tokenizer.vocab_size=300"), f"run {folder.name} has another tokenizer, byte of 257"),
    ):
        with pytest.raises(ConfigError, match=message):
            plan(config(*SHORT, *HEADS, *overrides, f"init_from={folder}"))
    with pytest.raises(ConfigError, match=r"^init_from: run 'nope' is not there"):
        plan(config("init_from=nope"))
    assert not outputs.exists()
