"""The feed-forward branches against their formulas, and the rule for their width."""

import math

import pytest
import torch
from contracts.menu import config

from lab import choices
from lab.compose import compose_config
from lab.errors import ConfigError
from lab.model.sizes import Dims


def normal_cdf(x):
    return (1 + torch.erf(x / math.sqrt(2))) / 2


def logistic(x):
    return 1 / (1 + torch.exp(-x))


def gelu_by_tanh(x):
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return x * logistic(2 * inner)  # (1 + tanh z) / 2 = σ(2 z)


def elu(x, alpha):
    return torch.where(x > 0, x, alpha * (torch.exp(x) - 1))


SHAPES = {
    "relu": lambda x: torch.where(x > 0, x, torch.zeros_like(x)),
    "relu2": lambda x: torch.where(x > 0, x * x, torch.zeros_like(x)),
    "gelu": lambda x: x * normal_cdf(x),
    "gelu_tanh": gelu_by_tanh,
    "swish": lambda x: x * logistic(x),
    "elu": lambda x: elu(x, 1.0),
    "selu": lambda x: 1.0507009873554804934 * elu(x, 1.6732632423543772848),
    "sigmoid": logistic,
    "softplus": lambda x: torch.log(1 + torch.exp(x)),
    "tanh": lambda x: 1 - 2 / (torch.exp(2 * x) + 1),
    "identity": lambda x: x,
    "swiglu": lambda x: x * logistic(x),
    "glu": logistic,
    "reglu": lambda x: torch.where(x > 0, x, torch.zeros_like(x)),
    "geglu": lambda x: x * normal_cdf(x),
    "liglu": lambda x: x,
}
"""What each does with a number; a gated one with that of the gate."""

VARIANTS = [
    ("swish", {"beta": 1.7}, lambda x: x * logistic(1.7 * x)),
    ("swish", {"beta": 0.0}, lambda x: x / 2),
    ("elu", {"alpha": 0.3}, lambda x: elu(x, 0.3)),
    ("geglu", {"approximate": "tanh"}, gelu_by_tanh),
]
GATED = [name for name in SHAPES if name.endswith("glu")]

every_activation = pytest.mark.parametrize("name", choices.names("activation"))


def dims(dim=24):
    return Dims(dim=dim, n_layers=1, n_heads=1, head_dim=dim, max_seq_len=4, vocab_size=5)


def random_branch(name, dim=24, **changed):
    """A branch with weights that keep the hidden numbers of order one, and any biases at random too."""
    branch = config("activation", name, **changed).build(dims(dim))
    with torch.no_grad():
        for key, parameter in branch.named_parameters():
            generator = torch.Generator().manual_seed(len(key))
            parameter.normal_(std=parameter.shape[-1] ** -0.5, generator=generator)
    return branch


@pytest.mark.parametrize(
    ("name", "changed", "shape"),
    [*((name, {}, SHAPES.get(name)) for name in choices.names("activation")), *VARIANTS],
)
@pytest.mark.parametrize("bias", [False, True])
def test_values_and_gradients_are_those_of_the_formula(name, changed, shape, bias):
    branch = random_branch(name, bias=bias, **changed).double()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 3, 24, generator=generator, dtype=torch.float64).mul(3).requires_grad_()
    w = dict(branch.named_parameters())

    def linear(y, part):
        return y @ w[f"{part}.weight"].T + w.get(f"{part}.bias", 0)

    hidden = shape(linear(x, "gate")) * linear(x, "up") if name in GATED else shape(linear(x, "up"))
    expected, y = linear(hidden, "out"), branch(x)
    torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-11)
    dy = torch.randn(y.shape, generator=generator, dtype=torch.float64)
    leaves = (x, *w.values())
    ours, theirs = (torch.autograd.grad((out * dy).sum(), leaves) for out in (y, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@every_activation
def test_a_gated_one_has_three_maps_and_a_plain_one_two(name):
    expected = {"gate", "up", "out"} if name in GATED else {"up", "out"}
    for bias in (False, True):
        keys = {f"{part}.{kind}" for part in expected for kind in (("weight", "bias") if bias else ("weight",))}
        assert set(config("activation", name, bias=bias).build(dims()).state_dict()) == keys


@every_activation
def test_every_key_of_the_yaml_matters(name):
    changes = {"ratio": 2.0, "d_ff": 11, "multiple_of": 13, "bias": True, "beta": 0.5, "alpha": 0.5}
    x = torch.randn(2, 24, generator=torch.Generator().manual_seed(1))
    usual = random_branch(name, bias=False)(x)
    for key in vars(config("activation", name)).keys() - {"name"}:
        value = "tanh" if key == "approximate" else changes[key]
        assert not torch.equal(random_branch(name, **{"bias": False, key: value})(x), usual), key


def test_geglu_says_which_approximations_there_are():
    with pytest.raises(ConfigError, match=r"activation\.approximate 'erf' must be one of none, tanh"):
        compose_config(["activation=geglu", "activation.approximate=erf"])


def test_the_two_gelus_differ_by_less_than_a_thousandth():
    x = torch.linspace(-6, 6, 10_001, dtype=torch.float64)
    assert 4e-4 < (SHAPES["gelu"](x) - gelu_by_tanh(x)).abs().max() < 5e-4


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
        ("geglu", {"ratio": 8.0}, 128, 1024),
        ("relu", {"ratio": 64}, 128, 8192),
        ("relu2", {"ratio": 64.0, "multiple_of": 128}, 100, 6400),
        ("gelu", {"ratio": 0.01}, 64, 8),
        ("gelu", {"ratio": 2.5, "multiple_of": 1}, 10, 25),
        ("gelu", {"ratio": 1.0, "multiple_of": 64}, 100, 128),
    ],
)
def test_the_width_rule(name, changed, dim, width):
    activation = config("activation", name, **changed)
    assert activation.width(dims(dim)) == width
    assert activation.build(dims(dim)).up.weight.shape == (width, dim)


@pytest.mark.parametrize("name", GATED)
@pytest.mark.parametrize("dim", [64, 768])
def test_gated_and_plain_branches_have_about_equal_parameters(name, dim):
    gated, plain = (
        sum(p.numel() for p in config("activation", kind, bias=False).build(dims(dim)).parameters())
        for kind in (name, "gelu")
    )
    assert gated == pytest.approx(plain, rel=4 / (8 / 3 * dim))


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("gelu", {"ratio": 0}, "ratio 0 must be > 0"),
        ("gelu", {"multiple_of": 0}, "multiple_of 0 must be >= 1"),
        ("gelu", {"d_ff": 0}, "d_ff 0 must be >= 1"),
        ("gelu", {"ratio": math.nan}, "ratio nan must be > 0"),
        ("glu", {"ratio": -1}, "ratio -1 must be > 0"),
        ("swish", {"beta": -1.0}, "beta -1.0 must be >= 0"),
        ("swish", {"ratio": 0}, "ratio 0 must be > 0"),
        ("elu", {"alpha": 0.0}, "alpha 0.0 must be > 0"),
        ("elu", {"ratio": 0}, "ratio 0 must be > 0"),
    ],
)
def test_what_is_refused(name, changed, message):
    with pytest.raises(ConfigError) as refused:
        config("activation", name, **changed)
    assert str(refused.value) == message
