"""Every choice of every group that makes the model, by what all of them promise."""

import dataclasses
import math

import pytest
import torch

from contracts.menu import EVERY, PATHS, SIZES, architecture, assert_sees_what_it_may, label, model, shaken, tokens
from lab.model.block import Block
from lab.model.loss import token_loss
from lab.training.precision import compute_in

every_choice = pytest.mark.parametrize("choice", EVERY, ids=label)
also_bf16 = pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.slow)])
also_tied = pytest.mark.parametrize(
    "tied", [pytest.param(False, id="untied"), pytest.param(True, id="tied", marks=pytest.mark.slow)]
)
ALL_AT_ONCE = {"stability": ["qk_norm", "z_loss"], "regularization": ["dropout", "weight_decay"]}

NOT_FLAT = {("stability", "norm_head")}
"""Choices that do not start from a uniform guess: unit rows in the head make logits as long as what enters it."""

BY_FAN_IN = {("init", name) for name in ("fan_in", "mup", "olmo_scaled", "small_init", "t5", "xavier")}
"""Choices whose first logits are not near zero, since they draw the head by its fan-in."""


def chosen(choice):
    group, name = choice
    return {group: name}


def objective(net, ids):
    x_BTD, extra = net(ids)
    target = ids.roll(-1, dims=1)
    return token_loss(net, x_BTD, target, denominator=target.numel()).objective + sum(extra.values())


@every_choice
@also_bf16
@pytest.mark.slow
def test_the_residual_stream_keeps_its_shape_and_stays_fp32(choice, precision):
    net, ids = model(**chosen(choice)), tokens()
    streams = []
    for module in net.modules():
        if isinstance(module, Block):
            module.register_forward_hook(lambda _, __, out: streams.append(out[0]))
    with compute_in(precision, "cpu"):
        x_BTD, _ = net(ids)
        z_BTV = net.logits(ids)
    assert len(streams) == 2 * SIZES.n_layers
    for stream in (*streams, x_BTD):
        assert stream.shape == (*ids.shape, SIZES.dim)
        assert stream.dtype == torch.float32
    assert z_BTV.shape == (*ids.shape, SIZES.vocab_size)
    assert z_BTV.dtype == (torch.bfloat16 if precision == "bf16" else torch.float32)
    assert z_BTV.isfinite().all()


def gradients(net, ids, precision):
    """The loss and every parameter's gradient, under one seed of noise."""
    net.zero_grad()
    torch.manual_seed(7)
    with compute_in(precision, "cpu"):
        loss = objective(net, ids)
    loss.backward()
    return {"loss": loss.detach(), **{name: p.grad for name, p in net.named_parameters()}}


@every_choice
@also_bf16
@pytest.mark.slow
def test_training_is_repeatable_and_every_gradient_is_finite_and_soon_not_zero(choice, precision):
    net, ids = model(**chosen(choice)), tokens()
    first, again = gradients(net, ids, precision), gradients(net, ids, precision)
    for name, gradient in first.items():
        assert gradient is not None, name
        assert torch.equal(gradient, again[name]), f"{name} differs under one seed of noise"
    moved = dict.fromkeys((name for name, _ in net.named_parameters()), False)
    for update in range(3):
        if update:
            gradients(net, ids, precision)
        for name, parameter in net.named_parameters():
            assert parameter.grad.dtype == torch.float32, name
            assert parameter.grad.isfinite().all(), name
            moved[name] |= bool(parameter.grad.count_nonzero())
            parameter.data -= 0.1 * parameter.grad
    assert all(moved.values()), [name for name, once in moved.items() if not once]


@every_choice
@pytest.mark.slow
def test_a_build_depends_on_its_seed_alone_and_has_what_the_outline_says(choice):
    before, arch = torch.get_rng_state(), architecture(**chosen(choice))
    first, second = (arch.build(study_seed=0, seed=1) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before), "building draws from the global generator"
    states = first.state_dict(), second.state_dict()
    assert list(states[0]) == list(states[1])
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), f"two builds of one seed differ in {name}"
    built = dict(first.named_parameters())
    outline = {name: p.shape for name, p in arch.outline().named_parameters()}
    assert {name: p.shape for name, p in built.items()} == outline
    for name, parameter in built.items():
        assert parameter.ndim < 2 or name.endswith(".weight"), f"{name} is a matrix that init does not draw"
        assert parameter.isfinite().all(), name


@torch.no_grad()
@every_choice
@also_tied
@pytest.mark.slow
def test_the_state_holds_all_and_evaluation_has_no_noise(choice, tied):
    source, target = (model(**chosen(choice), tied=tied, seed=seed).eval() for seed in (1, 2))
    shaken(source)
    target.load_state_dict(source.state_dict())
    ids = tokens()
    logits = source.logits(ids)
    assert torch.equal(target.logits(ids), logits), "the state does not hold all"
    assert torch.equal(source.logits(ids), logits), "two forwards in evaluation differ"


@pytest.mark.parametrize("choice", [choice for choice in EVERY if choice not in NOT_FLAT], ids=label)
@also_tied
def test_the_first_loss_is_that_of_a_uniform_guess(choice, tied):
    """Logits of variance s² about their mean cost s² / 2 nats, near nothing but for heads drawn by fan-in."""
    net, ids = model(**chosen(choice), tied=tied).eval(), tokens(4)
    generator = torch.Generator().manual_seed(11)
    target = torch.randint(SIZES.vocab_size, ids.shape, generator=generator)
    x_BTD, _ = net(ids)
    variance = x_BTD.square().sum(-1).mean() * net.head_weight().square().mean()
    nats = token_loss(net, x_BTD, target, denominator=1).nats / target.numel()
    expected = math.log(SIZES.vocab_size) + variance.item() / 2
    assert nats.item() == pytest.approx(expected, abs=0.1 + 0.3 * variance.item())
    assert variance < (5 if choice in BY_FAN_IN else 0.2)


@every_choice
def test_no_sequence_sees_another_and_no_token_a_later_one(choice):
    net = shaken(model(**chosen(choice))).eval()
    assert_sees_what_it_may(net)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_choices_that_combine_work_together(path, precision):
    net, ids = model(**ALL_AT_ONCE, path=path), tokens()
    with compute_in(precision, "cpu"):
        loss = objective(net, ids)
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "path"),
    [*((choice, "sdpa") for choice in EVERY), *((choice, "plain") for choice in EVERY if choice[0] == "attn")],
    ids=label,
)
def test_the_compiled_model_computes_the_same(choice, path):
    torch._dynamo.reset()
    one_layer = dataclasses.replace(SIZES, n_layers=1)
    net, ids = shaken(model(**chosen(choice), dims=one_layer, path=path)).eval(), tokens()
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(ids)[0], net(ids)[0], rtol=1e-5, atol=1e-5)
