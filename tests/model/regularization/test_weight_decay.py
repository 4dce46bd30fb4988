import pytest
import torch
from contracts.menu import SIZES, config, model

from lab import choices
from lab.errors import ConfigError
from lab.training.plan import plan
from lab.training.state import new_state

INSIDE = {
    *(f"blocks.{i}.attn.{part}.weight" for i in range(2) for part in ("q", "k", "v", "out")),
    *(f"blocks.{i}.ffn.{part}.weight" for i in range(2) for part in ("gate", "up", "out")),
}
TABLES = {"embedding.weight", "position.table.weight", "head.weight"}


ONCE = {("adamw", "gpt2"), ("muon", "mup")}
"""Pairs that the fast tests train; the slow ones train all."""

OFF = {"form": "coupled", "embeddings": False, "norms": False, "biases": False}


def named(**changed):
    """A model with every kind of parameter."""
    biased = dict.fromkeys(("q_bias", "k_bias", "v_bias", "out_bias"), True)
    return model(
        regularization=config("regularization", "weight_decay", rate=0.3, **{**OFF, **changed}),
        attn=config("attn", "gqa", **biased),
        activation=config("activation", "swiglu", bias=True),
        position="learned",
        norm="layernorm",
        stability="qk_norm",
        block="fixup",
    )


def decays(lr=1e-3, **changed):
    net = named(**changed)
    return {name: net.regularization.decay(name, p, lr) for name, p in net.named_parameters()}


@pytest.mark.parametrize(("embeddings", "expected"), [(False, INSIDE), (True, INSIDE | TABLES)])
def test_matrices_decay_but_neither_gains_nor_biases(embeddings, expected):
    rates = decays(embeddings=embeddings)
    assert {name for name, rate in rates.items() if rate} == expected
    assert set(rates.values()) == {0.0, 0.3}


def test_gains_and_biases_decay_where_asked_and_scalars_never():
    names = {name for name, _ in named().named_parameters()}
    gains = {name for name in names if name.endswith(".gain")}
    biases = {name for name in names if name.endswith(".bias")}
    scalars = {name for name in names if "_scalars." in name}
    assert names == INSIDE | TABLES | gains | biases | scalars
    assert len(scalars) == 2 * 2 * 3
    for changed, more in (({"norms": True}, gains), ({"biases": True}, biases)):
        assert {name for name, rate in decays(**changed).items() if rate} == INSIDE | more
    everything = decays(norms=True, biases=True, embeddings=True)
    assert {name for name, rate in everything.items() if not rate} == scalars


def test_the_gain_of_a_norm_around_one_decays_too():
    part = config("regularization", "weight_decay", **{**OFF, "norms": True}).build(SIZES)
    assert part.decay("final_norm.gain_offset", torch.zeros(3), 1e-3) > 0


@pytest.mark.parametrize("lr", [1e-3, 0.02])
def test_independent_decay_is_the_rate_whatever_the_learning_rate(lr):
    """The optimizer multiplies by lr_t = s_t lr, so that s_t × rate is left."""
    rates = decays(lr, form="independent")
    assert {name for name, rate in rates.items() if rate} == INSIDE
    assert [lr * rates[name] for name in INSIDE] == pytest.approx([0.3] * len(INSIDE), rel=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optim", "init"),
    [
        pytest.param(optim, init, marks=[] if (optim, init) in ONCE else pytest.mark.slow)
        for optim in choices.names("optim")
        for init in ("gpt2", "mup")
    ],
)
def test_a_step_takes_the_schedules_share_of_the_independent_rate_from_every_weight(request, optim, init):
    """Whatever the optimizer and the init make of a parameter's learning rate."""
    run_config, form = request.getfixturevalue("config"), "regularization.weight_decay.form=independent"
    words = [f"optim={optim}", f"init={init}", "regularization=weight_decay", form, "model.dim=16"]
    words += ["regularization.weight_decay.rate=0.25", "schedule.warmup_share=0.15"]
    words += ["regularization.weight_decay.embeddings=true"]
    planned = plan(run_config(*words))
    state = new_state(planned.config, planned.architecture)
    before = {name: p.detach().clone() for name, p in state.model.named_parameters()}
    for group in state.optimizer.param_groups:
        group["lr"] = planned.config.optim.lr * planned.config.schedule.factor(0, 20) * group["lr_scale"]
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    state.optimizer.step()
    for name, parameter in state.model.named_parameters():
        left = 1 - 0.25 * 0.25 if name.endswith(".weight") else 1  # the first of three warm-up steps: 1/4
        torch.testing.assert_close(parameter.detach(), left * before[name], rtol=1e-6, atol=0)


def test_without_it_nothing_decays():
    for regularization in ("none", "dropout"):
        net = model(regularization=regularization)
        assert not any(net.regularization.decay(name, p, 1e-3) for name, p in net.named_parameters())


def test_a_negative_rate_is_refused():
    with pytest.raises(ConfigError) as refused:
        config("regularization", "weight_decay", rate=-0.1)
    assert str(refused.value) == "rate -0.1 must be >= 0"
