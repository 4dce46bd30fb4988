"""From dense attention to chosen keys: the indexer alone is trained first, then everything."""

import pytest
import torch
from contracts.menu import architecture
from contracts.menu import config as choice
from each import for_each

from lab import choices
from lab.model.indexer import Indexer
from lab.runs.store import RunFolder
from lab.training.checkpoint import load_newest
from lab.training.load import load_model
from lab.training.loop import train_step
from lab.training.plan import plan
from lab.training.state import new_state
from training.folders import assert_same, resumed_from, steps, the_run

SHORT = ("train.steps=6", "train.checkpoint_every=2", "model.n_heads=4", "model.n_layers=2")
SPARSE = ("attn=dsa", "attn.top_k=8", "regularization=weight_decay", "optim.lr=1e-2")
DENSE = (*SPARSE, "attn.stage=dense")
INDEXER = tuple(f"blocks.*.attn.indexer.{part}.{kind}" for part, kind in (
    ("q", "weight"), ("k", "weight"), ("k_norm", "gain"), ("k_norm", "bias"), ("w", "weight")
))  # fmt: skip


OF_INDEXER = len(INDEXER)


def changed(before, after):
    """The names of what is not the same, bit for bit, of what there was."""
    return {name for name, value in before.items() if not torch.equal(value, after[name])}


def of_indexer(names):
    return {name for name in names if ".attn.indexer." in name}


@pytest.mark.slow
@for_each([(attn, block) for attn in ("dsa", "dsa_mla") for block in choices.names("block")])
def test_the_indexer_goes_by_its_name_in_every_block(attn, block):
    for stage in ("dense", "sparse"):
        arch = architecture(attn=choice("attn", attn, stage=stage), block=block, stability="sigma_reparam")
        net = arch.outline()
        inside = {p for part in net.modules() if isinstance(part, Indexer) for p in part.parameters()}
        assert len(inside) == 2 * (OF_INDEXER + 3)
        for name, parameter in net.named_parameters():
            assert arch.attn.trains(name) == (stage == "sparse" or parameter in inside), name


@pytest.mark.parametrize("attn", ["dsa", pytest.param("dsa_mla", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "optim", [o if o == "adamw" else pytest.param(o, marks=pytest.mark.slow) for o in choices.names("optim")]
)
def test_updates_change_the_indexer_and_nothing_else(config, optim, attn):
    words = (*SHORT, *DENSE, f"attn={attn}", "attn.stage=dense", f"optim={optim}", "model.tie_embeddings=true")
    planned = plan(config(*words, "regularization=[weight_decay,dropout]", "stability=z_loss"))
    state = new_state(planned.config, planned.architecture)
    before = {name: p.detach().clone() for name, p in state.model.named_parameters()}
    held = {id(p) for group in state.optimizer.param_groups for p in group["params"]}
    assert held == {id(p) for name, p in state.model.named_parameters() if ".attn.indexer." in name}
    for _ in range(2):
        train_step(planned.config, state, planned.batches)
    assert changed(before, dict(state.model.named_parameters())) == of_indexer(before) != set()
    tensors = state.tensors()
    again = new_state(planned.config, planned.architecture)
    again.load(tensors, state.step)
    assert again.tensors().keys() == tensors.keys()
    assert changed(tensors, again.tensors()) == set()
    assert {name.split(".")[4] for name in tensors if name.startswith("optim.")} <= {"indexer"}


def weights(folder):
    return load_model(RunFolder(folder)).model.state_dict()


def nats_of_indexers(folder, planned):
    """Their loss at the end of a run, on a batch that no run here trains on."""
    x_BT, _ = planned.batches.at(500)
    with torch.no_grad():
        return load_model(RunFolder(folder)).model.train()(torch.from_numpy(x_BT))[1]["indexer_kl"].item()


@pytest.mark.slow
def test_dense_then_the_indexer_then_all_of_it(train, config, outputs, caplog):
    dense = train(*SHORT, "attn=gqa", "optim.lr=1e-2", "train.steps=60")
    words = (*SHORT, *DENSE, f"init_from={dense.folder}")
    with caplog.at_level("INFO", logger="lab"):
        barely, warm = train(*words, "train.steps=1"), train(*words, "train.steps=60")
    outline = plan(config(*words)).outline
    sizes = {name: p.numel() for name, p in outline.named_parameters()}
    counted, n_indexer = warm.result["parameters"], sum(sizes[name] for name in of_indexer(sizes))
    assert (counted["trained"], counted["total"]) == (n_indexer, sum(sizes.values()))
    assert f"frozen: all but {n_indexer:,} of {counted['total']:,} parameters\n" in caplog.text
    assert warm.result["init_from"]["fresh"].keys() == set(INDEXER)

    had, has = weights(dense.folder), weights(warm.folder)
    assert has.keys() - had.keys() == of_indexer(has)
    assert changed(had, has) == set()
    assert (warm.result["status"], warm.result["final_loss"]) == ("done", dense.result["final_loss"])
    planned = plan(config(*words))
    assert nats_of_indexers(warm.folder, planned) < 0.5 * nats_of_indexers(barely.folder, planned)

    caplog.clear()
    with caplog.at_level("INFO", logger="lab"):
        sparse = train(*SHORT, *SPARSE, f"init_from={warm.folder}")
    assert "frozen" not in caplog.text
    assert sparse.result["parameters"]["trained"] == counted["total"]
    moved = sparse.result["init_from"]
    assert (moved["fresh"], moved["converted"], moved["dropped"]) == ({}, {}, {})
    assert changed(has, weights(sparse.folder)) == set(sizes)


@pytest.mark.slow
def test_a_warm_up_without_a_source_says_that_nothing_else_was_trained(train, caplog):
    with caplog.at_level("INFO", logger="lab"):
        train(*SHORT, *DENSE)
    assert "parameters, as they were drawn: init_from is null\n" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("optim", ["adamw", "muon"])
def test_a_frozen_run_is_resumed(kill_at, train, elsewhere, outputs, optim):
    start = f"init_from={elsewhere(*SHORT, 'attn=gqa')}"
    words = (*SHORT, *DENSE, f"optim={optim}", start, "checkpoint.after=all")
    kill_at(5, *words)
    folder = the_run(outputs)
    assert steps(folder) == [1, 2, 3, 4]
    train(*words)
    assert resumed_from(folder) == [4]
    untouched = elsewhere(*words)
    assert_same(folder, untouched)
    ends = [load_newest(RunFolder(path).checkpoints, most_steps=6) for path in (folder, untouched)]
    assert [step for _, step in ends] == [6, 6]
    assert ends[0][0].keys() == ends[1][0].keys()
    assert changed(ends[0][0], ends[1][0]) == set()
