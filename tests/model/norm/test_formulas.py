"""Every norm against its formula, written out for one vector at a time, in fp64: values and gradients."""

import math

import pytest
import torch
from contracts.menu import config

from lab import choices

DIM, EPS = 24, 1e-2


def mean_square(x):
    return sum(entry * entry for entry in x.unbind()) / len(x)


def standard(x):
    centred = x - sum(x.unbind()) / len(x)
    return centred / torch.sqrt(mean_square(centred) + EPS)


FORMULAS = {
    "layernorm": lambda x, p: p["gain"] * standard(x) + p["bias"],
    "layernorm_no_bias": lambda x, p: p["gain"] * standard(x),
    "layernorm_plain": lambda x, p: standard(x),
    "layernorm_1p": lambda x, p: (1 + p["gain_offset"]) * standard(x) + p["bias"],
    "rmsnorm": lambda x, p: p["gain"] * x / torch.sqrt(mean_square(x) + EPS),
    "rmsnorm_1p": lambda x, p: (1 + p["gain_offset"]) * x / torch.sqrt(mean_square(x) + EPS),
    "rmsnorm_partial": lambda x, p: p["gain"] * x / torch.sqrt(mean_square(x[:2]) + EPS),  # ⌈0.0675 x 24⌉ = 2
    "scalenorm": lambda x, p: p["gain"] * x / torch.sqrt(mean_square(x) * DIM).clamp(min=EPS),
    "dyt": lambda x, p: p["gain"] * (1 - 2 / (torch.exp(2 * p["alpha"] * x) + 1)) + p["bias"],
    "none": lambda x, p: x,
}
STARTS = {"gain": 1.0, "gain_offset": 0.0, "bias": 0.0, "alpha": 0.2}

every_norm = pytest.mark.parametrize("name", choices.names("norm"))


def build(name, dim=DIM):
    changed = {"eps": EPS} if hasattr(config("norm", name), "eps") else {}
    return config("norm", name, **changed).build(dim, site="ffn")


def shaken(module):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += torch.randn(parameter.shape, generator=generator)
    return module


def vectors(dtype=torch.float64):
    """Vectors of ordinary length, and a last one so short that eps decides."""
    x = 2 * torch.randn(3, 2, DIM, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 0.5
    x[-1, -1] *= 1e-4
    return x.to(dtype).requires_grad_()


@every_norm
def test_values_and_gradients_are_those_of_the_formula(name):
    module, x = shaken(build(name)).double(), vectors()
    p = dict(module.named_parameters())
    expected = torch.stack([FORMULAS[name](row, p) for row in x.view(-1, DIM)]).view_as(x)
    y = module(x)
    torch.testing.assert_close(y, expected, rtol=1e-11, atol=1e-12)
    dy = torch.randn(x.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    leaves = (x, *p.values())
    ours, theirs = (torch.autograd.grad((out * dy).sum(), leaves) for out in (y, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@every_norm
def test_a_bf16_vector_is_normalised_in_fp32(name):
    module = shaken(build(name))
    x = vectors(torch.bfloat16)
    y = module(x)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, module(x.float()).bfloat16())
    y.sum().backward()
    assert x.grad.dtype == torch.bfloat16


@every_norm
def test_where_the_parameters_start(name):
    for key, parameter in build(name).named_parameters():
        start = math.sqrt(DIM) if (name, key) == ("scalenorm", "gain") else STARTS[key]
        assert torch.equal(parameter, torch.full_like(parameter, start)), key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("layernorm_1p", "layernorm"),
        ("layernorm_no_bias", "layernorm"),
        ("layernorm_plain", "layernorm"),
        ("rmsnorm_1p", "rmsnorm"),
    ],
)
def test_at_the_start_some_are_the_same(one, other):
    x = vectors(torch.float32)
    assert torch.equal(build(one)(x), build(other)(x))


@every_norm
def test_every_key_of_the_yaml_matters(name):
    x = vectors(torch.float32)
    changes = {"eps": 0.5, "share": 0.5, "alpha": 0.3, "alpha_attn": 0.3}
    for key in vars(config("norm", name)).keys() - {"name"}:
        usual, changed = (
            [config("norm", name, **kw).build(DIM, site=site)(x) for site in ("attn", "ffn", "final", "embed")]
            for kw in ({}, {key: changes[key]})
        )
        assert any(not torch.allclose(a, b) for a, b in zip(usual, changed, strict=True)), key
