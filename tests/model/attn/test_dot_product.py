"""MHA, GQA and MQA against a loop over heads and queries, and what they refuse."""

import math

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken

from lab.errors import ConfigError

T, N, H = 7, SIZES.n_heads, SIZES.head_dim


def slow(module, x_BTD, n_kv_heads):
    """Equation 1 of arXiv:1706.03762 for one query of one head at a time."""
    q, k, v = (torch.nn.functional.linear(x_BTD, m.weight, m.bias) for m in (module.q, module.k, module.v))
    y = torch.zeros_like(q)
    for b in range(x_BTD.shape[0]):
        for n in range(N):
            own = slice(n * H, (n + 1) * H)
            g = n // (N // n_kv_heads)
            shared = slice(g * H, (g + 1) * H)
            for t in range(x_BTD.shape[1]):
                scores = torch.stack([q[b, t, own] @ k[b, s, shared] / math.sqrt(H) for s in range(t + 1)])
                weights = scores.exp() / scores.exp().sum()
                y[b, t, own] = sum(weights[s] * v[b, s, shared] for s in range(t + 1))
    return torch.nn.functional.linear(y, module.out.weight, module.out.bias)


@torch.no_grad()
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("name", "n_kv_heads"), [("mha", 4), ("gqa", 2), ("mqa", 1)])
def test_equals_a_loop_over_heads(name, n_kv_heads, path, bias):
    attn = config("attn", name, qkv_bias=bias, out_bias=bias)
    net = shaken(model(attn=attn, position="none", path=path).double())
    module = net.attention()[0]
    x_BTD = torch.randn(2, T, SIZES.dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    y_BTD, losses = module(x_BTD)
    torch.testing.assert_close(y_BTD, slow(module, x_BTD, n_kv_heads), rtol=1e-10, atol=1e-12)
    assert losses == {}


@pytest.mark.parametrize(("name", "n_kv_heads"), [("mha", 4), ("gqa", 2), ("mqa", 1)])
def test_sizes_of_projections_and_cache(name, n_kv_heads):
    module = model(attn=name).attention()[0]
    assert module.q.weight.shape == (N * H, SIZES.dim)
    assert module.k.weight.shape == module.v.weight.shape == (n_kv_heads * H, SIZES.dim)
    assert module.out.weight.shape == (SIZES.dim, N * H)
    assert module.cache_bytes(10, element_bytes=2) == 2 * n_kv_heads * H * 10 * 2
    assert module.flops(16) == 4 * N * H * 16


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ConfigError) as refused:
        model(attn=config("attn", "gqa", n_kv_heads=3))
    assert str(refused.value) == "attn.n_kv_heads 3 does not divide model.n_heads 4"


def test_more_groups_than_heads_are_refused():
    with pytest.raises(ConfigError) as refused:
        model(attn=config("attn", "gqa", n_kv_heads=8))
    assert str(refused.value) == "attn.n_kv_heads 8 does not divide model.n_heads 4"


def test_no_groups_are_refused():
    with pytest.raises(ConfigError) as refused:
        config("attn", "gqa", n_kv_heads=0)
    assert str(refused.value) == "n_kv_heads 0 must be >= 1"
