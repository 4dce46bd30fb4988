"""MHA, GQA and MQA against a loop over heads and queries; biases, scale, layers without positions; refusals."""

import dataclasses

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken

from lab.errors import ConfigError
from lab.model.position import LayerPosition

T, N, H = 7, SIZES.n_heads, SIZES.head_dim


def stream():
    return torch.randn(2, T, SIZES.dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def slow(module, x_BTD, n_kv_heads, scale=H**-0.5):
    """Equation 1 of arXiv:1706.03762 for one query of one head at a time."""
    q, k, v = (torch.nn.functional.linear(x_BTD, m.weight, m.bias) for m in (module.q, module.k, module.v))
    y = torch.zeros_like(q)
    for b in range(x_BTD.shape[0]):
        for n in range(N):
            own = slice(n * H, (n + 1) * H)
            g = n // (N // n_kv_heads)
            shared = slice(g * H, (g + 1) * H)
            for t in range(x_BTD.shape[1]):
                scores = torch.stack([q[b, t, own] @ k[b, s, shared] * scale for s in range(t + 1)])
                weights = scores.exp() / scores.exp().sum()
                y[b, t, own] = sum(weights[s] * v[b, s, shared] for s in range(t + 1))
    return torch.nn.functional.linear(y, module.out.weight, module.out.bias)


KINDS = [("mha", 4), ("gqa", 2), ("mqa", 1)]
BIASES = ("q_bias", "k_bias", "v_bias", "out_bias")


@torch.no_grad()
@pytest.mark.slow
@pytest.mark.parametrize("biases", [(), BIASES, *((one,) for one in BIASES)], ids=lambda b: "-".join(b) or "none")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("name", "n_kv_heads"), KINDS)
def test_equals_a_loop_over_heads(name, n_kv_heads, path, biases):
    attn = config("attn", name, **{key: key in biases for key in BIASES})
    net = shaken(model(attn=attn, position="none", path=path).double())
    module = net.attention()[0]
    assert {f"{part}_bias" for part in ("q", "k", "v", "out") if getattr(module, part).bias is not None} == {
        *biases
    }
    y_BTD, losses = module(stream())
    torch.testing.assert_close(y_BTD, slow(module, stream(), n_kv_heads), rtol=1e-10, atol=1e-12)
    assert losses == {}


SCALES = {None: H**-0.5, "inv_sqrt_head_dim": H**-0.5, "inv_head_dim": 1 / H, 0.7: 0.7, 2: 2.0}


@torch.no_grad()
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("name", "n_kv_heads"), KINDS)
def test_the_scale_multiplies_the_products_of_queries_and_keys(name, n_kv_heads, scale, path):
    net = shaken(model(attn=config("attn", name, scale=scale), position="none", path=path).double())
    module = net.attention()[0]
    expected = slow(module, stream(), n_kv_heads, SCALES[scale])
    torch.testing.assert_close(module(stream())[0], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("init", "auto"), [("gpt2", H**-0.5), ("mup", 1 / H), ("t5", 1.0)])
def test_only_an_automatic_scale_follows_the_init(init, auto):
    for scale, expected in {**SCALES, None: auto}.items():
        net = model(attn=config("attn", "mha", scale=scale), init=init)
        assert [module.scale for module in net.attention()] == [expected] * SIZES.n_layers


@pytest.mark.parametrize("scale", [0, -1, float("inf"), float("nan"), "sqrt"])
def test_a_scale_that_is_none_is_refused(scale):
    with pytest.raises(ConfigError) as refused:
        config("attn", "mha", scale=scale)
    allowed = "must be a number > 0, null, or one of inv_sqrt_head_dim, inv_head_dim"
    assert str(refused.value) == f"scale {scale!r} {allowed}"


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("every", "without"), [(None, []), (1, [0, 1, 2, 3, 4]), (2, [1, 3]), (3, [2]), (6, [])])
def test_the_last_of_every_few_layers_has_no_positions(every, without, path):
    dims = dataclasses.replace(SIZES, n_layers=5)
    net = shaken(model(attn=config("attn", "mha", nope_every=every), dims=dims, path=path).double())
    everywhere = model(attn="mha", dims=dims, path=path).double()
    everywhere.load_state_dict(net.state_dict())
    for index, (module, rotated) in enumerate(zip(net.attention(), everywhere.attention(), strict=True)):
        assert (type(module.position) is LayerPosition) == (index in without)
        y_BTD, turned_BTD = module(stream())[0], rotated(stream())[0]
        expected = slow(module, stream(), N) if index in without else turned_BTD
        torch.testing.assert_close(y_BTD, expected, rtol=1e-10, atol=1e-12)
        assert not torch.allclose(turned_BTD, slow(module, stream(), N), rtol=1e-2, atol=1e-2)


def test_no_layers_at_all_are_refused():
    with pytest.raises(ConfigError) as refused:
        config("attn", "gqa", nope_every=0)
    assert str(refused.value) == "nope_every 0 must be >= 1"


@pytest.mark.parametrize(
    ("n_heads", "heads_per_kv", "n_kv_heads"),
    [
        (4, 1, 4),
        (4, 2, 2),
        (4, 3, 1),
        (4, 4, 1),
        (4, 9, 1),
        (6, 2, 3),
        (8, 3, 2),  # 8 / 3 is 2.67
        (9, 2, 3),  # 9 / 2 is 4.5, and 4 does not divide 9
        (7, 2, 1),
        (16, 4, 4),
    ],
)
def test_a_ratio_gives_each_key_head_at_least_so_many_query_heads(n_heads, heads_per_kv, n_kv_heads):
    dims = dataclasses.replace(SIZES, n_heads=n_heads, head_dim=2)
    module = model(attn=config("attn", "gqa", heads_per_kv=heads_per_kv), dims=dims).attention()[0]
    assert module.n_kv_heads == n_kv_heads
    assert module.k.weight.shape == (n_kv_heads * 2, SIZES.dim)


def test_a_number_of_key_heads_goes_before_the_ratio():
    assert model(attn=config("attn", "gqa", n_kv_heads=4, heads_per_kv=4)).attention()[0].n_kv_heads == 4


@pytest.mark.parametrize(("name", "n_kv_heads"), KINDS)
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


def test_no_heads_to_share_are_refused():
    with pytest.raises(ConfigError) as refused:
        config("attn", "gqa", heads_per_kv=0)
    assert str(refused.value) == "heads_per_kv 0 must be >= 1"
