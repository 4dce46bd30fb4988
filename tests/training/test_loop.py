"""One update, by its parts: accumulation, clipping, noise; and that the whole can learn."""

import json
import math

import pytest
import torch

from lab.model.loss import token_loss
from lab.training.loop import backward, clip, train_step
from lab.training.plan import plan
from lab.training.state import new_state
from training.folders import steps


@pytest.fixture
def begin(config):
    """A run's configuration, state and batches, before the first step."""

    def make(*overrides):
        planned = plan(config("train.batch_size=16", *overrides))
        return planned.config, new_state(planned.config, planned.architecture), planned.batches

    return make


def gradients(run):
    config, state, batches = run
    loss = backward(config, state, batches)
    return loss.item(), {name: p.grad.clone() for name, p in state.model.named_parameters()}


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param((), id="plain", marks=pytest.mark.slow),
        pytest.param(("stability=[qk_norm,z_loss]",), id="z_loss"),
    ],
)
@pytest.mark.parametrize("micro", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_accumulation_is_the_whole_batch(begin, overrides, micro):
    loss, whole = gradients(begin(*overrides))
    loss_of_parts, parts = gradients(begin(*overrides, f"train.micro_batch_size={micro}"))
    assert loss_of_parts == pytest.approx(loss, rel=1e-6)
    for name, grad in whole.items():
        assert (parts[name] - grad).norm() <= 1e-5 * grad.norm(), name


def test_the_logged_loss_has_no_penalty(begin):
    plain, grads = gradients(begin())
    with_penalty, other = gradients(begin("stability=z_loss", "stability.z_loss.weight=1"))
    assert with_penalty == plain
    assert any(not torch.equal(grads[name], other[name]) for name in grads)


def test_gradients_are_those_of_autograd(begin):
    config, state, batches = begin()
    loss, found = gradients((config, state, batches))
    state.model.zero_grad()
    x_BT, y_BT = (torch.from_numpy(part) for part in batches.at(0))
    z_BTV = state.model.logits(x_BT)
    want = torch.nn.functional.cross_entropy(z_BTV.flatten(0, 1), y_BT.flatten())
    want.backward()
    assert loss == pytest.approx(want.item(), rel=1e-6)
    for name, parameter in state.model.named_parameters():
        assert (found[name] - parameter.grad).norm() <= 1e-5 * parameter.grad.norm(), name


@pytest.mark.slow
def test_clipping(begin):
    config, state, batches = begin("optim.grad_clip=0.01")
    _, grads = gradients((config, state, batches))
    norm = math.sqrt(sum(grad.double().square().sum().item() for grad in grads.values()))
    assert norm > 0.1
    assert clip(config, state).item() == pytest.approx(norm, rel=1e-5)
    after = math.sqrt(sum(p.grad.double().square().sum().item() for p in state.model.parameters()))
    assert after == pytest.approx(0.01, rel=1e-3)

    config, state, batches = begin("optim.grad_clip=null")
    gradients((config, state, batches))
    assert clip(config, state).item() == pytest.approx(norm, rel=1e-5)
    assert all(torch.equal(p.grad, grads[name]) for name, p in state.model.named_parameters())


def norms(folder):
    return [json.loads(line)["grad_norm"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_norms_are_logged_before_clipping(train):
    tiny = train("optim.grad_clip=1e-3")
    assert min(norms(tiny.folder)) > 0.1
    assert tiny.result["clipped_share"] == 1.0
    at = sorted(norms(train().folder))[5]
    some = train(f"optim.grad_clip={at}")
    values = norms(some.folder)
    assert some.result["clipped_share"] == sum(value > at for value in values) / 20
    assert 0 < some.result["clipped_share"] < 1


@pytest.mark.slow
def test_noise_is_a_function_of_seed_and_step(begin):
    dropout = ("regularization=dropout", "regularization.dropout.residual=0.3")
    config, state, batches = begin(*dropout)
    first, _ = gradients((config, state, batches))
    torch.rand(1000)
    assert gradients((config, state, batches))[0] == first
    other, state, batches = begin(*dropout, "study_seed=1")
    state.load(begin(*dropout)[1].tensors(), 0)
    assert gradients((other, state, begin(*dropout)[2]))[0] != first


class OneBatch:
    """The same batch at every step."""

    def __init__(self, batches):
        self.batch = batches.at(0)

    def at(self, step):
        return tuple(part.copy() for part in self.batch)


@pytest.mark.slow
def test_one_batch_is_learned_by_heart(begin):
    config, state, batches = begin("train.batch_size=4", "train.steps=100", "optim.lr=0.02", "schedule=constant")
    for _ in range(100):
        loss, _, lr = train_step(config, state, OneBatch(batches))
    assert state.step == 100
    assert lr == 0.02
    assert loss.item() < 0.1


def test_state_survives_its_tensors(begin):
    config, state, batches = begin("regularization=weight_decay")
    for _ in range(3):
        train_step(config, state, batches)
    kept = {name: value.clone() for name, value in state.tensors().items()}
    config, other, batches = begin("regularization=weight_decay")
    other.load(kept, 3)
    assert other.step == 3
    for run in (state, other):
        train_step(config, run, batches)
    assert state.tensors().keys() == other.tensors().keys() == kept.keys()
    for name, value in state.tensors().items():
        assert torch.equal(value, other.tensors()[name]), name
    assert all(f"optim.{name}.{key}" in kept for name, _ in state.model.named_parameters() for key in
               ("step", "exp_avg", "exp_avg_sq"))  # fmt: skip


def test_checkpoints_at_the_end_only(train, outputs):
    folder = train("train.checkpoint_every=null").folder
    assert [path.name for path in (folder / "checkpoint").iterdir()] == ["step-00000020.safetensors"]
    assert steps(folder) == list(range(1, 21))


def test_targets_of_padding_do_not_count(begin):
    _, state, batches = begin()
    x_BT, y_BT = (torch.from_numpy(part) for part in batches.at(0))
    hidden_BTD, _ = state.model(x_BT)
    whole = token_loss(state.model, hidden_BTD, y_BT, denominator=1).nats.item()
    y_BT[3:] = -1
    part = token_loss(state.model, hidden_BTD, y_BT, denominator=1).nats.item()
    alone = token_loss(state.model, hidden_BTD[:3], y_BT[:3], denominator=1).nats.item()
    assert part == pytest.approx(alone, rel=1e-6)
    assert part < whole / 4
