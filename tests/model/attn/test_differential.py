"""Differential attention against its equations pair by pair, against MHA, and against DiffLlama in transformers."""

import dataclasses
import math

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken, tokens
from transformers import DiffLlamaConfig
from transformers.models.diffllama.modeling_diffllama import DiffLlamaAttention

from lab.errors import ConfigError

from .by_heads import D, H, N, assert_same, causal_scores, head, leaves, stream, weighted

both_paths = pytest.mark.parametrize("path", PATHS)
VECTORS = {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"}
EIGHT = dataclasses.replace(SIZES, n_heads=8, head_dim=4)


def made(*, path="sdpa", index=0, dims=SIZES, position="none", **keys):
    attn = config("attn", "differential", **keys)
    return shaken(model(attn=attn, position=position, path=path, dims=dims).double()).attention()[index]


def slow(w, x, *, index, n_heads=N, n_kv_pairs=N // 2, lam_init=None, eps=1e-5):
    """Heads of width 2 H; head i reads the keys and the value of the pair i // (heads a pair)."""
    width = N * H // n_heads
    lam_init = 0.8 - 0.6 * math.exp(-0.3 * index) if lam_init is None else lam_init
    lam = (w["lambda_q1"] @ w["lambda_k1"]).exp() - (w["lambda_q2"] @ w["lambda_k2"]).exp() + lam_init
    per_pair, heads = n_heads // 2 // n_kv_pairs, []
    for i in range(n_heads // 2):
        pair, member = divmod(i, per_pair)
        v = torch.cat([head(w, x, "v", 2 * pair + half, width) for half in (0, 1)], dim=-1)
        maps = []
        for which in (0, 1):
            q = head(w, x, "q", (2 * pair + which) * per_pair + member, width)
            k = head(w, x, "k", 2 * pair + which, width)
            maps.append(weighted(causal_scores(q, k, width**-0.5), v))
        y = maps[0] - lam * maps[1]
        y = y / (y.pow(2).mean(-1, keepdim=True) + eps).sqrt()
        heads.append((1 - lam_init) * y * w.get("head_norm.gain", 1))
    return torch.cat(heads, dim=-1) @ w["out.weight"].T


@both_paths
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("keys", [{}, {"norm_gain": False}, {"lambda_init": 0.5}, {"eps": 0.3}], ids=str)
def test_equals_the_equations_in_value_and_gradient(keys, index, path):
    module = made(path=path, index=index, **keys)
    assert module.path == path
    w = leaves(module)
    assert ("head_norm.gain" in w) == keys.get("norm_gain", True)
    expected = slow(w, stream(), index=index, lam_init=keys.get("lambda_init"), eps=keys.get("eps", 1e-5))
    assert_same(module, w, module(stream())[0], expected, rtol=1e-9)


@both_paths
@pytest.mark.parametrize(
    ("keys", "n_kv_pairs"),
    [({}, 4), ({"heads_per_kv": 2}, 2), ({"heads_per_kv": 4}, 1), ({"n_kv_heads": 2}, 2), ({"n_kv_heads": 1}, 1)],
)
def test_pairs_of_keys_may_be_shared(keys, n_kv_pairs, path):
    module = made(path=path, dims=EIGHT, **keys)
    assert module.k.weight.shape == module.v.weight.shape == (2 * n_kv_pairs * 4, D)
    assert module.cache_bytes(10, element_bytes=2) == 2 * (2 * n_kv_pairs) * 4 * 10 * 2
    w = leaves(module)
    expected = slow(w, stream(), index=0, n_heads=8, n_kv_pairs=n_kv_pairs)
    assert_same(module, w, module(stream())[0], expected, rtol=1e-9)


@torch.no_grad()
def test_nothing_subtracted_is_ordinary_attention_of_the_first_of_each_pair():
    module = made(lambda_init=0, norm_gain=False)
    for name in VECTORS:
        getattr(module, name).zero_()
    assert module.lam() == 0
    q, k = (part.weight.view(-1, 2, H, D)[:, 0] for part in (module.q, module.k))
    x_BTD = stream()
    scores = [causal_scores(x_BTD @ q[i].T, x_BTD @ k[i].T) for i in range(N // 2)]
    values = module.v(x_BTD).view(2, 7, N // 2, 2 * H)
    found = torch.stack([weighted(s, values[:, :, i]) for i, s in enumerate(scores)], dim=2)
    normed = torch.nn.functional.rms_norm(found, (2 * H,), eps=1e-5).flatten(2)
    torch.testing.assert_close(module(x_BTD)[0], normed @ module.out.weight.T, rtol=1e-11, atol=1e-12)


def test_as_many_weights_as_mha_but_for_the_vectors_and_the_gain():
    ours, plain = (dict(model(attn=name).attention()[0].named_parameters()) for name in ("differential", "mha"))
    assert set(ours) - set(plain) == {*VECTORS, "head_norm.gain"}
    assert {name: p.shape for name, p in plain.items()} == {name: ours[name].shape for name in plain}
    assert sum(ours[name].numel() for name in set(ours) - set(plain)) == 4 * H + 2 * H


@pytest.mark.parametrize("width", [7, 8])
def test_lam_starts_at_its_place_in_depth(width):
    dims = dataclasses.replace(SIZES, n_layers=4, head_dim=width)
    modules = model(attn="differential", dims=dims, position="none").attention()
    for module, expected in zip(modules, (0.2, 0.3555090676, 0.4707130183, 0.5560582042), strict=True):
        assert module.lam().item() == pytest.approx(expected, abs=1e-6)
        assert module.lambda_init == pytest.approx(expected, abs=1e-9)
        assert all(getattr(module, name).abs().allclose(torch.tensor(0.1)) for name in VECTORS)


@both_paths
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_equals_diffllama(kv_heads, path):
    module = made(index=1, path=path, norm_gain=False, heads_per_kv=N // kv_heads).float()
    sizes = {"hidden_size": D, "num_attention_heads": N, "num_key_value_heads": kv_heads, "head_dim": H}
    setting = DiffLlamaConfig(**sizes, rms_norm_eps=1e-5, attn_implementation="eager")
    theirs, groups = DiffLlamaAttention(setting, 1).eval(), N // kv_heads

    def halves(weight, per_key):
        """Rows of the first of all pairs, then of the second; lab has the pairs one after another."""
        return weight.view(-1, 2, per_key * H, D).transpose(0, 1).reshape(-1, D)

    state = {
        "q_proj.weight": halves(module.q.weight, groups),
        "k_proj.weight": halves(module.k.weight, 1),
        "v_proj.weight": halves(module.v.weight, 1),
        "o_proj.weight": module.out.weight,
        **{name: getattr(module, name) for name in VECTORS},
    }
    theirs.load_state_dict(state)
    x_BTD = stream(dtype=torch.float32)
    still = torch.ones(2, 7, H), torch.zeros(2, 7, H)
    expected = theirs(x_BTD, still, torch.full((1, 1, 7, 7), -torch.inf).triu(1))[0]
    y_BTD = module(x_BTD)[0]
    torch.testing.assert_close(y_BTD, expected, rtol=1e-5, atol=1e-5)
    y_BTD.mul(stream(seed=9, dtype=torch.float32)).sum().backward()
    expected.mul(stream(seed=9, dtype=torch.float32)).sum().backward()
    gradients = {name: p.grad for name, p in theirs.named_parameters()}
    torch.testing.assert_close(
        halves(module.q.weight.grad, groups), gradients["q_proj.weight"], rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(halves(module.k.weight.grad, 1), gradients["k_proj.weight"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(halves(module.v.weight.grad, 1), gradients["v_proj.weight"], rtol=1e-4, atol=1e-5)
    for name in VECTORS:
        torch.testing.assert_close(getattr(module, name).grad, gradients[name], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_rows_that_a_position_adds_to_values_are_added_to_each_half():
    """To values of equal halves, Shaw's rows make heads of equal halves too."""
    shaw = config("position", "shaw", values=True)
    net = shaken(model(attn=config("attn", "differential", norm_gain=False), position=shaw).double())
    module, found = net.attention()[0], []
    assert module.path == "plain"
    module.head_norm.register_forward_pre_hook(lambda _, args: found.append(args[0]))
    v = module.v.weight.view(-1, 2, H, D)
    v[:, 1] = v[:, 0]
    module(stream())
    module.position.values.weight.zero_()
    module(stream())
    first, second = found[0].chunk(2, dim=-1)
    torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-14)
    assert not torch.allclose(found[0], found[1], rtol=1e-3, atol=1e-3)
    assert net.logits(tokens()).isfinite().all()


def test_flops_count_values_of_twice_the_width():
    assert made().flops(16) == 6 * N * H * 16


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"eps": 0}, "eps 0 must be > 0"),
        ({"lambda_init": 1}, "lambda_init 1 must be >= 0 and < 1"),
        ({"lambda_init": -0.1}, "lambda_init -0.1 must be >= 0 and < 1"),
    ],
)
def test_values_out_of_range_are_refused(changed, message):
    with pytest.raises(ConfigError) as refused:
        config("attn", "differential", **changed)
    assert str(refused.value) == message


def test_heads_that_go_in_no_pairs_are_refused():
    dims = dataclasses.replace(SIZES, n_heads=3)
    with pytest.raises(ConfigError) as refused:
        model(attn="differential", dims=dims)
    assert str(refused.value) == "attn=differential takes heads in pairs: model.n_heads 3 must be even"


def test_pairs_that_go_in_no_groups_are_refused():
    with pytest.raises(ConfigError) as refused:
        made(n_kv_heads=3, dims=EIGHT)
    assert str(refused.value) == "attn.n_kv_heads 3 does not divide the 4 pairs of model.n_heads 8"
