"""Sigmoid attention against its equation head by head; its bias; one key; the precision of small weights."""

import dataclasses
import math

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken

from lab.errors import ConfigError

from .by_heads import H, N, assert_same, causal_scores, head, leaves, stream


def made(score_bias=None, *, heads_per_kv=1, **chosen):
    attn = config("attn", "sigmoid", score_bias=score_bias, heads_per_kv=heads_per_kv)
    return shaken(model(attn=attn, position="none", **chosen).double()).attention()[0]


def slow(w, x, n_kv_heads, b):
    heads = []
    for n in range(N):
        g = n * n_kv_heads // N
        scores = causal_scores(head(w, x, "q", n), head(w, x, "k", g))
        heads.append(torch.einsum("bts,bsh->bth", 1 / (1 + (-scores - b).exp()), head(w, x, "v", g)))
    return torch.cat(heads, dim=-1) @ w["out.weight"].T


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("heads_per_kv", [1, 2])
@pytest.mark.parametrize(("score_bias", "b"), [(None, -math.log(16)), (0, 0.0), (-1.5, -1.5)])
def test_equals_the_equation_in_value_and_gradient(score_bias, b, heads_per_kv, path):
    module = made(score_bias, heads_per_kv=heads_per_kv, path=path)
    assert module.path == "plain"
    w = leaves(module)
    assert_same(module, w, module(stream())[0], slow(w, stream(), N // heads_per_kv, b))


@torch.no_grad()
def test_the_bias_is_by_the_training_length_whatever_the_length():
    long = made(dims=dataclasses.replace(SIZES, max_seq_len=100))
    assert long.score_bias == -math.log(100)
    for length in (1, 5, 20):
        x_BTD = stream(length)
        expected = slow(dict(long.named_parameters()), x_BTD, N, -math.log(100))
        torch.testing.assert_close(long(x_BTD)[0], expected, rtol=1e-10, atol=1e-12)


@torch.no_grad()
def test_a_query_that_sees_one_key_takes_a_share_of_its_value():
    module, x_BTD = made(), stream(1)
    q, k, v = (part(x_BTD).view(2, N, H) for part in (module.q, module.k, module.v))
    odds = ((q * k).sum(-1, keepdim=True) / H**0.5).exp() / 16
    expected = (odds / (1 + odds) * v).view(2, 1, N * H) @ module.out.weight.T
    torch.testing.assert_close(module(x_BTD)[0], expected, rtol=1e-12, atol=1e-14)


@torch.no_grad()
def test_equal_scores_of_zero_weigh_almost_as_a_softmax_at_the_training_length():
    module = made()
    module.q.weight.zero_()
    mean = module.v(stream(16)).mean(1) @ module.out.weight.T
    torch.testing.assert_close(module(stream(16))[0][:, -1], mean * 16 / 17, rtol=1e-10, atol=1e-12)


@torch.no_grad()
def test_weights_in_bf16_are_rounded_once():
    scores = torch.linspace(-2, 2, 101, dtype=torch.bfloat16)
    exact = torch.sigmoid(scores.double() - math.log(16))
    weights = made().weigh(scores)
    assert weights.dtype == torch.bfloat16
    assert ((weights.double() - exact).abs() / exact).max() <= 2**-8


@pytest.mark.parametrize("score_bias", [float("inf"), float("nan")])
def test_a_bias_that_is_no_number_is_refused(score_bias):
    with pytest.raises(ConfigError, match=r"score_bias \w+ must be a finite number"):
        config("attn", "sigmoid", score_bias=score_bias)
