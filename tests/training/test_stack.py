"""Runs trained as one batched model against the same runs one by one."""

from dataclasses import dataclass, replace

import pytest
import torch

from lab.config import RunConfig
from lab.data.batches import Batches
from lab.model import loss, stacked_loss
from lab.training.loop import train_step, update
from lab.training.plan import plan
from lab.training.stack import Stack
from lab.training.state import TrainState, new_state

STEPS = 24


@dataclass(frozen=True)
class Member:
    config: RunConfig
    state: TrainState
    batches: Batches


Z = "stability.z_loss.weight="
DECAY = "regularization.weight_decay.rate="
MUON = ("optim=muon", "train.batch_size=2")
MICRO = ("train.micro_batch_size=2", "model.tie_embeddings=true")

SWEEPS = {
    "seeds": [("seed=0",), ("seed=1",), ("study_seed=2",)],
    "rates": [("optim.lr=1e-3",), ("optim.lr=1e-2", "optim.beta2=0.9"), ("schedule=constant", "train.steps=30")],
    "decay": [("regularization=weight_decay", DECAY + decay) for decay in ("0.0", "0.3")],
    "z-loss": [("stability=z_loss", Z + weight, f"seed={seed}") for seed in (1, 2) for weight in ("0", "1e-2")],
    "muon": [(*MUON, "optim.lr=1e-3"), (*MUON, "optim.momentum=0.8"), (*MUON, "optim=adamw")],
    "micro batches, tied": [(*MICRO, "seed=1"), (*MICRO, "seed=2", "optim.grad_clip=0.5")],
    "smoothing": [
        ("regularization=label_smoothing", f"regularization.label_smoothing.share={share}") for share in (0.0, 0.2)
    ],
}


@pytest.fixture
def member(config):
    """A run before its first step; ``precise``: in fp64."""

    def make(*overrides, precise=False, **changed):
        planned = plan(replace(config(*overrides), **changed))
        state = new_state(planned.config, planned.architecture)
        if precise:
            state.model.double()
        return Member(planned.config, state, planned.batches)

    return make


def alone(member, steps=STEPS):
    """Losses, norms and rates of a run."""
    return [numbers(*train_step(member.config, member.state, member.batches)) for _ in range(steps)]


def together(stack, steps=STEPS):
    """The same of each run of a stack, by its state."""
    found = {id(member.state): [] for member in stack.members}
    for _ in range(steps):
        for member, nats in zip(stack.members, stack.backward(), strict=True):
            mine = numbers(nats, *update(member.config, member.state, member.batches))
            found[id(member.state)].append(mine)
    return found


def numbers(nats, norm, lr):
    return nats.item(), norm.item(), lr


def assert_alike(found, wanted, tolerance):
    """Losses and norms differ by rounding alone, rates not at all."""
    for (nats, norm, lr), (other_nats, other_norm, other_lr) in zip(found, wanted, strict=True):
        assert nats == pytest.approx(other_nats, rel=tolerance, abs=0)
        assert norm == pytest.approx(other_norm, rel=10 * tolerance, abs=0)
        assert lr == other_lr


def assert_equal(members, separate, tolerance):
    found = together(Stack(members))
    for one, other in zip(members, separate, strict=True):
        assert_alike(found[id(one.state)], alone(other), tolerance)
        tensors = other.state.tensors()
        assert one.state.tensors().keys() == tensors.keys()
        for name, tensor in one.state.tensors().items():
            assert (tensor - tensors[name]).norm() <= 100 * tolerance * tensors[name].norm(), name


def test_two_seeds(member):
    members, separate = ([member(), member(seed=2)] for _ in range(2))
    found = together(Stack(members), 3)
    for one, other in zip(members, separate, strict=True):
        assert_alike(found[id(one.state)], alone(other, 3), 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SWEEPS if name != "muon"])
def test_equal_to_separate_runs(member, name):
    members, separate = ([member(*own) for own in SWEEPS[name]] for _ in range(2))
    assert_equal(members, separate, 2e-6)


@pytest.mark.slow
def test_equal_in_bf16(member):
    own = [("precision=bf16", f"seed={seed}", "attn_path=plain") for seed in (1, 2)]
    members, separate = ([member(*one) for one in own] for _ in range(2))
    found = together(Stack(members))
    for one, other in zip(members, separate, strict=True):
        assert_alike(found[id(one.state)], alone(other), 1e-3)


@pytest.mark.slow
def test_runs_that_minimise_the_same_stand_side_by_side(member):
    wide = replace(member("stability=z_loss").config.stability["z_loss"], weight=1.0)
    decay = "regularization=weight_decay"
    runs = [
        member("stability=z_loss", decay),
        member("stability=z_loss", decay, stability={"z_loss": wide}),
        member("stability=z_loss", decay, seed=3),
    ]
    slower = replace(runs[0].config.regularization["weight_decay"], rate=0.5)
    runs.append(member("stability=z_loss", decay, regularization={"weight_decay": slower}))
    stack = Stack(runs)
    assert stack.members == [runs[0], runs[2], runs[3], runs[1]]
    assert [(first, last) for _, first, last in stack._minimised.shares] == [(0, 3), (3, 4)]


@pytest.mark.slow
@pytest.mark.parametrize("name", SWEEPS)
def test_equal_to_many_digits(monkeypatch, member, name):
    """In fp64; Muon's products, too, whose bf16 makes a last digit of fp32 a percent of an update."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.double)
    members, separate = ([member(*own, precise=True) for own in SWEEPS[name]] for _ in range(2))
    assert_equal(members, separate, 1e-7)  # the loss is reported in fp32


@pytest.mark.slow
@pytest.mark.parametrize("rows", [7, 64, 1000])
@pytest.mark.parametrize("elements", [1, 40_000, 1 << 30], ids=["one model", "some", "all"])
def test_however_many_logits_are_held_at_once(monkeypatch, member, rows, elements):
    monkeypatch.setattr(stacked_loss, "chunk_rows", lambda device, vocab_size: rows)
    monkeypatch.setitem(loss.CHUNK_ELEMENTS, "cpu", elements)
    variant = "stability.z_loss.variant=squared_mean_lse"
    sweep = [("stability=[z_loss,logit_softcap]", Z + weight, variant, "model.head_bias=true") for weight in "012"]
    members, separate = ([member(*own, precise=True) for own in sweep] for _ in range(2))
    found = together(Stack(members), 3)
    for one, other in zip(members, separate, strict=True):
        assert_alike(found[id(one.state)], alone(other, 3), 1e-7)
