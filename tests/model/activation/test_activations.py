"""The feed-forward branches against their formulas, and the rule for their width."""

import math

import pytest
import torch
from contracts.menu import config

from lab.errors import ConfigError
from lab.model.sizes import Dims


def relu(w, x):
    return (x @ w["up.weight"].T).clamp(min=0) @ w["out.weight"].T


def gelu(w, x):
    y = x @ w["up.weight"].T
    return (y * 0.5 * (1 + torch.erf(y / math.sqrt(2)))) @ w["out.weight"].T


def swiglu(w, x):
    gate = x @ w["gate.weight"].T
    return (gate / (1 + torch.exp(-gate)) * (x @ w["up.weight"].T)) @ w["out.weight"].T


def dims(dim=24):
    return Dims(dim=dim, n_layers=1, n_heads=1, head_dim=dim, max_seq_len=4, vocab_size=5)


@pytest.mark.parametrize("formula", [relu, gelu, swiglu], ids=lambda f: f.__name__)
def test_the_branch_equals_its_formula(formula):
    branch = config("activation", formula.__name__).build(dims()).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in branch.parameters():
            parameter.normal_(generator=generator)
    x = torch.randn(2, 3, 24, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(branch(x), formula(branch.state_dict(), x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "n_biases"), [("relu", 2), ("gelu", 2), ("swiglu", 3)])
def test_biases_are_a_choice(name, n_biases):
    for bias, expected in ((False, 0), (True, n_biases)):
        branch = config("activation", name, bias=bias).build(dims())
        assert sum(key.endswith(".bias") for key, _ in branch.named_parameters()) == expected


def test_biases_are_added():
    branch = config("activation", "relu", bias=True).build(dims())
    with torch.no_grad():
        branch.up.weight.zero_(), branch.out.weight.fill_(1.0)
        branch.up.bias.fill_(2.0), branch.out.bias.fill_(0.5)
    assert (branch(torch.ones(1, 1, 24)) == 2.0 * 96 + 0.5).all()


@pytest.mark.parametrize(
    ("name", "changed", "dim", "width"),
    [
        ("swiglu", {}, 128, 344),
        ("swiglu", {}, 256, 680),
        ("swiglu", {"multiple_of": 256}, 4096, 11008),
        ("swiglu", {"d_ff": 100}, 128, 100),
        ("gelu", {}, 128, 512),
        ("relu", {}, 128, 512),
        ("gelu", {"ratio": 0.01}, 64, 8),
        ("gelu", {"ratio": 2.5, "multiple_of": 1}, 10, 25),
        ("gelu", {"ratio": 1.0, "multiple_of": 64}, 100, 128),
    ],
)
def test_the_width_rule(name, changed, dim, width):
    activation = config("activation", name, **changed)
    assert activation.width(dims(dim)) == width
    assert activation.build(dims(dim)).up.weight.shape == (width, dim)


@pytest.mark.parametrize("dim", [64, 128, 256, 768])
def test_gated_and_plain_branches_have_about_equal_parameters(dim):
    gated, plain = (
        sum(p.numel() for p in config("activation", name).build(dims(dim)).parameters())
        for name in ("swiglu", "gelu")
    )
    assert gated == pytest.approx(plain, rel=4 / (8 / 3 * dim))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ratio": 0}, "ratio 0 must be > 0"),
        ({"multiple_of": 0}, "multiple_of 0 must be >= 1"),
        ({"d_ff": 0}, "d_ff 0 must be >= 1"),
        ({"ratio": math.nan}, "ratio nan must be > 0"),
    ],
)
def test_what_is_refused(changed, message):
    with pytest.raises(ConfigError) as refused:
        config("activation", "gelu", **changed)
    assert str(refused.value) == message
