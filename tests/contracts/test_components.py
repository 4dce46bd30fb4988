"""Every choice of every group that makes the model, by what all of them promise."""

import dataclasses
import math

import pytest
import torch

from contracts.menu import EVERY, PATHS, SIZES, architecture, label, model, reach, shaken, tokens
from lab.model.block import Block
from lab.model.loss import token_loss
from lab.training.precision import compute_in

every_choice = pytest.mark.parametrize("choice", EVERY, ids=label)
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
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
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


@every_choice
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_parameter_gets_a_finite_gradient_and_soon_one_that_is_not_zero(choice, precision):
    net, ids = model(**chosen(choice)), tokens()
    moved = dict.fromkeys((name for name, _ in net.named_parameters()), False)
    for _ in range(3):
        net.zero_grad()
        torch.manual_seed(0)
        with compute_in(precision, "cpu"):
            loss = objective(net, ids)
        loss.backward()
        for name, parameter in net.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.dtype == torch.float32, name
            assert parameter.grad.isfinite().all(), name
            moved[name] |= bool(parameter.grad.count_nonzero())
            parameter.data -= 0.1 * parameter.grad
    assert all(moved.values()), [name for name, once in moved.items() if not once]


@every_choice
def test_two_builds_of_one_seed_are_equal(choice):
    first, second = model(**chosen(choice)).state_dict(), model(**chosen(choice)).state_dict()
    assert list(first) == list(second)
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


@every_choice
def test_building_leaves_the_global_generator_alone(choice):
    before = torch.get_rng_state()
    model(**chosen(choice))
    assert torch.equal(torch.get_rng_state(), before)


@every_choice
def test_two_forwards_are_equal_in_evaluation(choice):
    net, ids = model(**chosen(choice)).eval(), tokens()
    assert torch.equal(net.logits(ids), net.logits(ids))


@every_choice
def test_two_training_steps_are_equal_under_one_seed_of_noise(choice):
    net, ids = model(**chosen(choice)), tokens()
    outcomes = []
    for _ in range(2):
        net.zero_grad()
        torch.manual_seed(7)
        loss = objective(net, ids)
        loss.backward()
        outcomes.append([loss.detach(), *(p.grad.clone() for p in net.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))


@every_choice
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_the_state_goes_round(choice, tied):
    source, target = (model(**chosen(choice), tied=tied, seed=seed).eval() for seed in (1, 2))
    shaken(source)
    target.load_state_dict(source.state_dict())
    ids = tokens()
    assert torch.equal(source.logits(ids), target.logits(ids))


@pytest.mark.parametrize("choice", [choice for choice in EVERY if choice not in NOT_FLAT], ids=label)
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
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
def test_the_outline_has_the_parameters_of_the_model(choice):
    arch = architecture(**chosen(choice))
    built = {name: p.shape for name, p in arch.build(study_seed=0, seed=1).named_parameters()}
    outline = {name: p.shape for name, p in arch.outline().named_parameters()}
    assert built == outline


@every_choice
def test_every_matrix_is_called_weight_and_so_is_drawn(choice):
    for name, parameter in model(**chosen(choice)).named_parameters():
        assert (parameter.ndim < 2) or name.endswith(".weight"), name
        assert parameter.isfinite().all(), name


@every_choice
def test_no_sequence_sees_another_and_no_token_a_later_one(choice):
    net, ids = shaken(model(**chosen(choice))).eval(), tokens()
    embedded = []
    net.embedding.register_forward_hook(lambda _, __, out: embedded.append(out))
    x_BTD, _ = net(ids)
    seen = reach(net, ids.shape[1])
    for t in (0, 1, 4, 7, 8, 11, 15):
        (gradient,) = torch.autograd.grad(x_BTD[1, t, ::3].sum(), embedded, retain_graph=True)
        assert not gradient[0].any()
        assert gradient[1].any(dim=-1).tolist() == seen[t].tolist()


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
