"""Strided attention: the sets of the paper, and who takes which."""

import dataclasses

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken

from lab.errors import ConfigError
from lab.model.attention_mask import HalfOfTheHeads, NearAndStrided, Sliding, Strided

T, N, H, L = 23, SIZES.n_heads, SIZES.head_dim, 5

NEAR = [[max(0, i - L) <= j <= i for j in range(T)] for i in range(T)]
FAR = [[j in range(i % L, i + 1, L) for j in range(T)] for i in range(T)]
BOTH = [[a or b for a, b in zip(near, far, strict=True)] for near, far in zip(NEAR, FAR, strict=True)]
SEEN = {
    ("alternate", 0): [NEAR] * N,
    ("alternate", 1): [FAR] * N,
    ("merged", 0): [BOTH] * N,
    ("merged", 1): [BOTH] * N,
    ("heads", 0): [NEAR] * (N // 2) + [FAR] * (N // 2),
    ("heads", 1): [NEAR] * (N // 2) + [FAR] * (N // 2),
}


def slow(module, x_BTD, heads_per_kv, seen):
    """Head by head, a softmax over the keys of a set."""
    heads = []
    for n in range(N):
        own, kv = slice(n * H, n * H + H), slice(n // heads_per_kv * H, n // heads_per_kv * H + H)
        q, k, v = x_BTD @ module.q.weight[own].T, x_BTD @ module.k.weight[kv].T, x_BTD @ module.v.weight[kv].T
        weights = (q @ k.mT / H**0.5).exp() * torch.tensor(seen[n])
        heads.append(weights / weights.sum(-1, keepdim=True) @ v)
    return torch.cat(heads, -1) @ module.out.weight.T


@torch.no_grad()
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("heads_per_kv", [1, 2, 4])
@pytest.mark.parametrize("combine", ["alternate", "merged", "heads"])
def test_equals_a_softmax_over_the_sets_of_the_paper(combine, heads_per_kv, path):
    attn = config("attn", "strided", stride=L, combine=combine, heads_per_kv=heads_per_kv)
    net = shaken(model(attn=attn, position="none", path=path).double())
    x_BTD = torch.randn(2, T, SIZES.dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for index, module in enumerate(net.attention()):
        expected = slow(module, x_BTD, heads_per_kv, SEEN[combine, index])
        torch.testing.assert_close(module(x_BTD)[0], expected, rtol=1e-10, atol=1e-12)


def test_two_steps_reach_everything():
    reached = torch.tensor(FAR).float() @ torch.tensor(NEAR).float()
    assert (reached > 0).tolist() == [[j <= i for j in range(T)] for i in range(T)]


@pytest.mark.parametrize(("length", "stride"), [(16, 4), (18, 4), (1, 1), (4096, 64)])
def test_the_stride_is_by_default_the_root_of_the_length(length, stride):
    dims = dataclasses.replace(SIZES, max_seq_len=length)
    attn = config("attn", "strided")
    assert [attn.layer(i, dims).mask for i in range(4)] == [Sliding(stride + 1), Strided(stride)] * 2
    assert config("attn", "strided", stride=7).layer(1, dims).mask == Strided(7)
    assert config("attn", "strided", combine="merged").layer(1, dims).mask == NearAndStrided(stride)
    halves = config("attn", "strided", combine="heads").layer(0, dims).mask
    assert halves == HalfOfTheHeads(Sliding(stride + 1), Strided(stride), N)


def test_layers_without_positions_go_together_with_it():
    attn = config("attn", "strided", nope_every=2)
    assert [attn.layer(i, SIZES).position_on for i in range(4)] == [True, False, True, False]


def test_a_cache_of_near_keys_alone_is_short():
    net = model(attn=config("attn", "strided", stride=L))
    assert [m.cache_bytes(100, element_bytes=2) for m in net.attention()] == [
        2 * N * H * n * 2 for n in (L + 1, 100)
    ]


def test_heads_without_halves_are_refused():
    dims = dataclasses.replace(SIZES, n_heads=3)
    with pytest.raises(ConfigError, match=r"combine heads needs an even model\.n_heads, not 3"):
        config("attn", "strided", combine="heads").layer(0, dims)
    assert config("attn", "strided").layer(1, dims).mask == Strided(4)


def test_values_out_of_range_are_refused():
    with pytest.raises(ConfigError, match=r"^stride 0 must be >= 1$"):
        config("attn", "strided", stride=0)
