"""What a choice does inside attention, against attention that goes query by query: values and gradients in fp64."""

import math

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken, tokens

from lab import choices
from lab.errors import ConfigError
from model.stability.slow import attention, centred, rms

N, K, H, L = SIZES.n_heads, 2, SIZES.head_dim, SIZES.max_seq_len
EPS = 1e-2


def flat(norm):
    return lambda x: norm(x.flatten(-2), EPS).view_as(x)


def of_qk(norm_q, norm_k):
    return lambda q, k, v: (norm_q(q), norm_k(k), v)


def forms_of_qk_norm(hooks):
    """Each form of QK-norm: its keys, and what it should do with the parameters that the module has."""
    q, k = (None, None) if hooks is None else (hooks.qk_norm.q, hooks.qk_norm.k)

    def gained(norm, gain, heads, plus=0.0, bias=None):
        def apply(x):
            y = norm(x, EPS) * (gain() + plus).view(heads(x), H)
            return y if bias is None else y + bias().view(heads(x), H)

        return apply

    one, own = (lambda x: 1), (lambda x: x.shape[-2])
    return {
        "rmsnorm-head": ({}, of_qk(gained(rms, lambda: q.gain, one), gained(rms, lambda: k.gain, one))),
        "rmsnorm_1p-head": (
            {"norm": "rmsnorm_1p"},
            of_qk(gained(rms, lambda: q.gain_offset, one, 1), gained(rms, lambda: k.gain_offset, one, 1)),
        ),
        "rmsnorm_plain-head": (
            {"norm": "rmsnorm_plain"},
            of_qk(lambda x: rms(x, EPS), lambda x: rms(x, EPS)),
        ),
        "rmsnorm-full": (
            {"over": "full"},
            of_qk(
                lambda x: flat(rms)(x) * q.norm.gain.view(N, H),
                lambda x: flat(rms)(x) * k.norm.gain.view(K, H),
            ),
        ),
        "layernorm-full": (
            {"over": "full", "norm": "layernorm_no_bias"},
            of_qk(
                lambda x: flat(centred)(x) * q.norm.gain.view(N, H),
                lambda x: flat(centred)(x) * k.norm.gain.view(K, H),
            ),
        ),
        "rmsnorm_plain-full": (
            {"over": "full", "norm": "rmsnorm_plain"},
            of_qk(flat(rms), flat(rms)),
        ),
        "rmsnorm-per_head": (
            {"over": "per_head"},
            of_qk(gained(rms, lambda: q.gain, own), gained(rms, lambda: k.gain, own)),
        ),
        "rmsnorm_1p-per_head": (
            {"over": "per_head", "norm": "rmsnorm_1p"},
            of_qk(gained(rms, lambda: q.gain_offset, own, 1), gained(rms, lambda: k.gain_offset, own, 1)),
        ),
        "layernorm-per_head": (
            {"over": "per_head", "norm": "layernorm"},
            of_qk(
                gained(centred, lambda: q.gain, own, bias=lambda: q.bias),
                gained(centred, lambda: k.gain, own, bias=lambda: k.bias),
            ),
        ),
        "layernorm_no_bias-per_head": (
            {"over": "per_head", "norm": "layernorm_no_bias"},
            of_qk(gained(centred, lambda: q.gain, own), gained(centred, lambda: k.gain, own)),
        ),
        "l2": (
            {"norm": "l2"},
            of_qk(
                lambda x: x / (x * x).sum(-1, keepdim=True).sqrt() * q.length,
                lambda x: x / (x * x).sum(-1, keepdim=True).sqrt(),
            ),
        ),
    }


def inputs():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, L, SIZES.dim, generator=generator, dtype=torch.float64).requires_grad_()


def same(net, path, expected):
    """Values, and gradients by the input and by everything inside."""
    module, x_BTD = net.attention()[0], inputs()
    assert module.path == path
    outcomes = []
    for y_BTD in (module(x_BTD)[0], expected(module, x_BTD)):
        dy_BTD = torch.randn(y_BTD.shape, generator=torch.Generator().manual_seed(2), dtype=y_BTD.dtype)
        wanted = (x_BTD, *module.parameters())
        outcomes.append([y_BTD, *torch.autograd.grad(y_BTD, wanted, dy_BTD)])
    for ours, slow in zip(*outcomes, strict=True):
        torch.testing.assert_close(ours, slow, rtol=1e-9, atol=1e-11)


def net_with(name, path, **keys):
    return shaken(model(stability=config("stability", name, **keys), attn="gqa", path=path).double())


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("form", forms_of_qk_norm(None))
def test_qk_norm(form, order, path):
    keys = forms_of_qk_norm(None)[form][0]
    net = net_with("qk_norm", path, eps=EPS, order=order, **keys)
    norms = forms_of_qk_norm(net.attention()[0].stability)[form][1]
    scale = 1.0 if form == "l2" else None
    same(net, path, lambda m, x: attention(m, x, scale=scale, **{order: norms}))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("norm", "formula"), [("rmsnorm", rms), ("layernorm_no_bias", centred)])
def test_qkv_norm(path, norm, formula):
    net = net_with("qkv_norm", path, norm=norm, eps=EPS)
    part = net.attention()[0].stability.qkv_norm

    def norms(q, k, v):
        return tuple(formula(x, EPS) * m.gain for x, m in ((q, part.q), (k, part.k), (v, part.v)))

    same(net, path, lambda m, x: attention(m, x, before=norms))


@pytest.mark.parametrize("path", PATHS)
def test_qkv_clip(path):
    def clip(*qkv):
        return tuple(torch.where(x.abs() > 0.5, 0.5 * x.detach().sign(), x) for x in qkv)

    same(net_with("qkv_clip", path, limit=0.5), path, lambda m, x: attention(m, x, before=clip))


def test_attn_softcap():
    def cap(scores):
        return 0.3 * (1 - 2 / (1 + (2 * scores / 0.3).exp()))

    same(net_with("attn_softcap", "sdpa", cap=0.3), "plain", lambda m, x: attention(m, x, score=cap))


def test_softmax_temperature():
    net = net_with("softmax_temperature", "sdpa", beta=0.3)
    same(net, "plain", lambda m, x: attention(m, x, scale=0.3 / math.sqrt(H)))


@pytest.mark.parametrize("path", PATHS)
def test_temperature_tuning(path):
    def tuned(q, k, v):
        factors = [1 + 0.7 * math.log(1 + (t + 1) // 3) for t in range(q.shape[1])]
        return torch.stack([f * q[:, t] for t, f in enumerate(factors)], dim=1), k, v

    net = net_with("temperature_tuning", path, floor_scale=3, attn_scale=0.7)
    same(net, path, lambda m, x: attention(m, x, after=tuned))


OFF = {
    "attn_softcap": {"cap": 1e9},
    "qkv_clip": {"limit": 1e9},
    "softmax_temperature": {"beta": 1},
    "temperature_tuning": {"attn_scale": 0},
}


@torch.no_grad()
@pytest.mark.parametrize("name", OFF)
def test_at_the_end_of_its_range_a_choice_is_off(name):
    net, plain = net_with(name, "sdpa", **OFF[name]), shaken(model(attn="gqa", path="sdpa").double())
    torch.testing.assert_close(net.logits(tokens()), plain.logits(tokens()), rtol=1e-10, atol=1e-12)


INSIDE = [("qk_norm", {"order": "after"}), ("qk_norm", {"norm": "l2"}), ("temperature_tuning", {"floor_scale": 2})]
INSIDE += [(name, {}) for name in ("qkv_norm", "qkv_clip", "attn_softcap", "softmax_temperature")]


@torch.no_grad()
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("name", "keys"), INSIDE, ids=str)
def test_decoding_with_a_cache_equals_the_whole_forward(name, keys, path):
    net, ids = net_with(name, path, **keys), tokens()
    caches, pieces, offset = net.new_caches(), [], 0
    for length in (5, 1, 7, 3):
        pieces.append(net(ids[:, offset : offset + length], caches, offset)[0])
        offset += length
    torch.testing.assert_close(torch.cat(pieces, dim=1), net(ids)[0], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", choices.names("stability"))
def test_latent_attention_takes_what_leaves_keys_and_values_alone(name):
    if name in ("qk_norm", "qkv_norm", "qkv_clip"):
        with pytest.raises(ConfigError, match=rf"^attn=mla with stability={name} is refused: [^\n]*$"):
            model(stability=name, attn="mla")
    else:
        assert model(stability=name, attn="mla").logits(tokens()).isfinite().all()
