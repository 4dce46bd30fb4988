"""Value residual against a plain loop through two layers; its shares, its cache, shared blocks, and what is MHA."""

import dataclasses

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken, tokens

from lab.errors import ConfigError
from lab.training.precision import compute_in

from .by_heads import N, assert_same, causal_scores, head, leaves, stream, weighted

both_paths = pytest.mark.parametrize("path", PATHS)
NUMBERS = {"own_share", "first_share"}


def net(*, path="sdpa", n_layers=2, ends=None, position="none", **keys):
    dims = dataclasses.replace(SIZES, n_layers=n_layers)
    attn = config("attn", "value_residual", **keys)
    return shaken(model(attn=attn, position=position, path=path, dims=dims, ends=ends).double())


def slow(w, x, first, n_kv_heads, a, b):
    """One layer; ``first`` holds the values of the first by head, and is filled by it."""
    heads = []
    for n in range(N):
        g = n * n_kv_heads // N
        v = head(w, x, "v", g)
        v = a * v + b * first[g] if len(first) == n_kv_heads and a is not None else v
        heads.append(weighted(causal_scores(head(w, x, "q", n), head(w, x, "k", g)), v))
    return torch.cat(heads, dim=-1) @ w["out.weight"].T


@both_paths
@pytest.mark.parametrize("heads_per_kv", [1, 2])
@pytest.mark.parametrize("mix", ["learned", "fixed"])
def test_equals_the_equation_in_value_and_gradient(mix, heads_per_kv, path):
    modules = net(
        path=path, mix=mix, heads_per_kv=heads_per_kv, own_share=0.7, first_share=0.4, n_layers=3
    ).attention()
    n_kv_heads, shared = N // heads_per_kv, {}
    ws = [leaves(module) for module in modules]
    assert [set(w) & NUMBERS for w in ws] == [set(), *([NUMBERS if mix == "learned" else set()] * 2)]
    first = [head(ws[0], stream(seed=0), "v", g) for g in range(n_kv_heads)]
    y_BTD = sum(module(stream(seed=i), shared=shared)[0] for i, module in enumerate(modules))
    expected_BTD = slow(ws[0], stream(seed=0), first, n_kv_heads, None, None)
    for i in (1, 2):
        a, b = (ws[i][name] for name in ("own_share", "first_share")) if mix == "learned" else (0.7, 0.4)
        expected_BTD = expected_BTD + slow(ws[i], stream(seed=i), first, n_kv_heads, a, b)
    whole = torch.nn.ModuleList(modules)
    assert_same(whole, {f"{i}.{name}": p for i, w in enumerate(ws) for name, p in w.items()}, y_BTD, expected_BTD)


@torch.no_grad()
@both_paths
def test_nothing_of_the_first_layer_is_ordinary_attention(path):
    plain = shaken(model(attn="mha", path=path).double())
    for first_share, same in ((0, True), (0.5, False)):
        mixed = net(mix="fixed", own_share=1, first_share=first_share, path=path, position="rope")
        mixed.load_state_dict(plain.state_dict())
        close = torch.allclose(mixed.logits(tokens()), plain.logits(tokens()), rtol=1e-12, atol=1e-13)
        assert close == same


@torch.no_grad()
def test_learned_shares_start_from_the_given_ones():
    made = [
        model(attn=config("attn", "value_residual", mix=mix, own_share=0.9, first_share=-0.2)).double()
        for mix in ("fixed", "learned")
    ]
    made[1].load_state_dict(made[0].state_dict(), strict=False)
    torch.testing.assert_close(*(net.logits(tokens()) for net in made), rtol=1e-6, atol=1e-7)


@torch.no_grad()
def test_a_module_alone_mixes_nothing():
    second = net().attention()[1]
    plain = model(attn="mha", position="none").double().attention()[1]
    plain.load_state_dict(second.state_dict(), strict=False)
    torch.testing.assert_close(second(stream())[0], plain(stream())[0], rtol=1e-12, atol=1e-14)


@torch.no_grad()
def test_a_block_that_is_all_layers_mixes_by_the_shares():
    shared_net = net(n_layers=3, ends={"layers_shared": 3}, own_share=0.6, first_share=0.3)
    unshared = net(n_layers=3, mix="fixed", own_share=0.6, first_share=0.3)
    state = shared_net.state_dict()
    for name in list(state):
        if name.startswith("blocks.0."):
            state |= {name.replace("blocks.0.", f"blocks.{i}."): state[name] for i in (1, 2)}
    unshared.load_state_dict(state)
    torch.testing.assert_close(shared_net.logits(tokens()), unshared.logits(tokens()), rtol=1e-12, atol=1e-13)


@torch.no_grad()
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_cache_holds_the_mixture_in_the_type_of_the_keys(precision):
    made = net(own_share=0.6, first_share=0.3, heads_per_kv=2).float()
    seen = []
    for module in made.attention():
        module.v.register_forward_hook(lambda _, __, out: seen.append(out))
    caches = made.new_caches()
    with compute_in(precision, "cpu"):
        made(tokens(), caches)
    first, second = (v.unflatten(-1, (2, -1)) for v in seen)
    a, b = (getattr(made.attention()[1], name) for name in ("own_share", "first_share"))
    assert {t.dtype for cache in caches for t in (cache.k_BSKH, cache.v_BSKH)} == {first.dtype}
    assert torch.equal(caches[0].v_BSKH, first)
    assert torch.equal(caches[1].v_BSKH, (a * second + b * first).to(first.dtype))


@pytest.mark.parametrize("key", sorted(NUMBERS))
def test_shares_that_are_no_numbers_are_refused(key):
    with pytest.raises(ConfigError) as refused:
        config("attn", "value_residual", **{key: float("nan")})
    assert str(refused.value) == f"{key} nan must be a finite number"
