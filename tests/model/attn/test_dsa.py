"""DeepSeek sparse attention against loops over queries, heads and keys, in fp64."""

import math

import pytest
import torch
from contracts.menu import SIZES, config, model, shaken, tokens

from lab.errors import ConfigError
from lab.model import indexed_attention
from lab.model.count import training_flops_per_token

T, N, H, D, X = 9, SIZES.n_heads, SIZES.head_dim, SIZES.dim, 4
INDEX = {"top_k": X, "index_n_heads": 3, "index_head_dim": 6, "index_rope_share": 0.7}
R = 4
"""Rotated numbers of the six."""
KINDS = {
    "gqa": ("dsa", {"n_kv_heads": 2}),
    "mla": ("dsa_mla", {"kv_rank": 10, "q_rank": 12, "rope_dim": 4, "v_dim": 6}),
    "mla-plain-q": ("dsa_mla", {"kv_rank": 10, "rope_dim": 4, "v_dim": 6}),
}

every_kind = pytest.mark.parametrize("kind", ["gqa", "mla", pytest.param("mla-plain-q", marks=pytest.mark.slow)])
both_choices = pytest.mark.parametrize("attn", ["dsa", "dsa_mla"])


@pytest.fixture(params=["plain", "blocks", "gathered"])
def path(request, monkeypatch):
    """All scores at once, those of a block of queries at a time, or those of chosen keys alone."""
    if request.param == "gathered":
        monkeypatch.setattr(indexed_attention, "KEYS_OF_A_GATHER", 1)
    return "plain" if request.param == "plain" else "sdpa"


def layer(kind, *, path="plain", position="none", **changed):
    name, own = KINDS[kind]
    attn = config("attn", name, **{**INDEX, **own, **changed})
    return shaken(model(attn=attn, position=position, path=path).double()).attention()[0]


def stream(length=T):
    return torch.randn(2, length, D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def turn(x, t):
    """RoPE on half-split pairs as complex numbers, angles in fp32 as lab has them."""
    half = len(x) // 2
    angle = torch.tensor(float(t)) * 10000.0 ** (-torch.arange(half).float() / half)
    turned = torch.complex(x[:half], x[half:]) * torch.polar(torch.ones_like(angle), angle).to(torch.complex128)
    return torch.cat((turned.real, turned.imag))


def rms(x, gain):
    return gain * x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()


def main_heads(w, x, turned):
    """Query, key and value of each token and query head, and what index queries are made of."""
    if "k_up.weight" not in w:
        q, k, v = ((x @ w[f"{part}.weight"].T).unflatten(-1, (-1, H)) for part in "qkv")
        q, k = (torch.stack([torch.stack([turned(h, t) for h in row]) for t, row in enumerate(y)]) for y in (q, k))
        return q, k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1), x
    latent = rms(x @ w["q_down.weight"].T, w["q_norm.gain"]) if "q_down.weight" in w else x
    queries = (latent @ w["q_up.weight" if "q_up.weight" in w else "q.weight"].T).unflatten(-1, (N, -1))
    c = rms(x @ w["kv_down.weight"].T, w["kv_norm.gain"])
    k_rope = torch.stack([turned(k, t) for t, k in enumerate(x @ w["k_rope.weight"].T)])
    rope = torch.stack([torch.stack([turned(h[H:], t) for h in row]) for t, row in enumerate(queries)])
    k = torch.cat(((c @ w["k_up.weight"].T).unflatten(-1, (N, H)), k_rope[:, None].expand(-1, N, -1)), dim=-1)
    return torch.cat((queries[..., :H], rope), dim=-1), k, (c @ w["v_up.weight"].T).unflatten(-1, (N, -1)), latent


def index_scores(w, x, latent, turned):
    """I_ts for s <= t, one head at a time."""
    x, latent = x.detach(), latent.detach()
    k = x @ w["indexer.k.weight"].T
    k = (k - k.mean(-1, keepdim=True)) / (k.var(-1, keepdim=True, unbiased=False) + 1e-6).sqrt()
    k = k * w["indexer.k_norm.gain"] + w["indexer.k_norm.bias"]
    q = (latent @ w["indexer.q.weight"].T).unflatten(-1, (3, 6))
    weights = x @ w["indexer.w.weight"].T

    def rotated(vector, t):
        return torch.cat((turned(vector[:R], t), vector[R:]))

    rows = []
    for t in range(len(x)):
        row = []
        for s in range(t + 1):
            terms = [weights[t, j] * torch.relu(rotated(q[t, j], t) @ rotated(k[s], s)) for j in range(3)]
            row.append(sum(terms) / math.sqrt(3) / math.sqrt(6))
        rows.append(torch.stack(row))
    return rows


def nearest_of_the_best(row, n_keys):
    """By sorting pairs, the larger score first and then the later position."""
    return sorted(sorted(range(len(row)), key=lambda s: (row[s].item(), s), reverse=True)[:n_keys])


def slow(w, x_BTD, *, turned, stage="sparse"):
    """The layer's output and the mean divergence."""
    outs, nats = [], []
    for x in x_BTD:
        q, k, v, latent = main_heads(w, x, turned)
        rows = index_scores(w, x, latent, turned)
        for t in range(len(x)):
            seen = list(range(t + 1)) if stage == "dense" else nearest_of_the_best(rows[t], X)
            heads, p = [], torch.zeros(len(seen), dtype=x.dtype)
            for n in range(N):
                scores = torch.stack([q[t, n] @ k[s, n] for s in seen]) / math.sqrt(q.shape[-1])
                weights = scores.exp() / scores.exp().sum()
                heads.append(sum(a * v[s, n] for a, s in zip(weights, seen, strict=True)))
                p = p + weights.detach()
            outs.append(w["out.weight"] @ torch.cat(heads))
            p, chosen = p / p.abs().sum(), rows[t][seen]
            guess = chosen.exp() / chosen.exp().sum()
            nats.append((p * (p / guess).log()).sum())
    return torch.stack(outs).view_as(x_BTD), torch.stack(nats).mean()


def close(actual, expected, tolerance):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@every_kind
# Rotary angles are fp32 on both sides and may differ by a rounding.
@pytest.mark.parametrize(
    ("stage", "position", "tolerance"),
    [("sparse", "none", 1e-10), ("sparse", "rope", 1e-5), pytest.param("dense", "none", 1e-10)],
)
def test_equals_loops_in_value_loss_and_gradient(kind, path, stage, position, tolerance):
    module = layer(kind, path=path, position=position, stage=stage)
    w = {key: p.detach().clone().requires_grad_() for key, p in module.named_parameters()}
    x_BTD = stream()
    y_BTD, losses = module(x_BTD)
    expected, nats = slow(w, x_BTD, turned=turn if position == "rope" else lambda x, t: x, stage=stage)
    close(y_BTD, expected, tolerance)
    assert losses.keys() == {"indexer_kl"}
    close(losses["indexer_kl"], nats, tolerance)
    ((y_BTD * x_BTD).sum() + 3 * losses["indexer_kl"]).backward()
    ((expected * x_BTD).sum() + 3 * nats).backward()
    for key, parameter in module.named_parameters():
        close(parameter.grad, w[key].grad, 10 * tolerance)


@every_kind
@pytest.mark.parametrize("stage", ["sparse", "dense"])
def test_the_indexer_learns_from_its_divergence_alone_and_nothing_else_does(kind, path, stage):
    for of_loss in (True, False):
        module, x_BTD = layer(kind, path=path, stage=stage), stream().requires_grad_()
        y_BTD, losses = module(x_BTD)
        (losses["indexer_kl"] if of_loss else y_BTD.square().sum()).backward()
        for name, parameter in module.named_parameters():
            learns = parameter.grad is not None and bool(parameter.grad.any())
            assert learns == (of_loss == name.startswith("indexer.")), name
        assert (x_BTD.grad is not None) == (not of_loss)


@torch.no_grad()
@pytest.mark.parametrize("position", ["rope", pytest.param("shaw", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("attn", "dense"), [("dsa", "gqa"), ("dsa_mla", "mla")])
@pytest.mark.parametrize("changed", [{"top_k": SIZES.max_seq_len}, {"top_k": 500}, {"stage": "dense"}], ids=str)
def test_all_keys_chosen_is_dense_attention(attn, dense, changed, position, path):
    net = shaken(model(attn=config("attn", attn, **changed), position=position, path=path))
    other = model(attn=dense, position=position, path=path)
    missing, more = other.load_state_dict(net.state_dict(), strict=False)
    assert not missing
    assert all(".attn.indexer." in name for name in more)
    assert torch.equal(net.logits(tokens()), other.logits(tokens()))


@torch.no_grad()
@both_choices
def test_choosing_all_but_one_key_is_not_dense_attention(attn):
    net = shaken(model(attn=config("attn", attn, top_k=SIZES.max_seq_len - 1)).double())
    logits_BTV = net.logits(tokens())
    for module in net.attention():
        module.n_chosen += 1
    apart_BT = (net.logits(tokens()) - logits_BTV).abs().amax(dim=-1)
    assert apart_BT[:, :-1].max() < 1e-12
    assert apart_BT[:, -1].min() > 1e-6


@pytest.mark.slow
@both_choices
@pytest.mark.parametrize("position", ["rope", "shaw"])
@pytest.mark.parametrize(("stage", "keys"), [("sparse", 1), ("sparse", 16), ("dense", 16)])
def test_blocks_of_queries_change_nothing(attn, stage, keys, position, monkeypatch):
    monkeypatch.setattr(indexed_attention, "KEYS_OF_A_GATHER", keys)
    net, outcomes = shaken(model(attn=config("attn", attn, stage=stage), position=position).double()), []
    for size in (3, 5, 128):
        monkeypatch.setattr(indexed_attention, "BLOCK", size)
        net.zero_grad()
        x_BTD, losses = net(tokens())
        (x_BTD.square().sum() + losses["indexer_kl"]).backward()
        outcomes.append([x_BTD.detach(), losses["indexer_kl"].detach(), *(p.grad for p in net.blocks.parameters())])
    for first, second, whole in zip(*outcomes, strict=True):
        close(first, whole, 1e-11)
        close(second, whole, 1e-11)


@torch.no_grad()
@both_choices
@pytest.mark.parametrize("position", ["rope", "alibi"])
def test_decoding_with_a_cache_is_the_whole_forward(attn, path, position):
    net, ids = shaken(model(attn=attn, position=position, path=path).double()).eval(), tokens()
    caches, pieces, offset = net.new_caches(), [], 0
    for length in (5, 1, 1, 6, 3):
        pieces.append(net(ids[:, offset : offset + length], caches, offset)[0])
        offset += length
    close(torch.cat(pieces, dim=1), net(ids)[0], 1e-10)


def test_few_keys_are_gathered_and_many_are_not():
    module = model(attn=config("attn", "dsa", top_k=3)).attention()[0]
    assert [module.gathers(range(n)) for n in (3, 47, 48, 500)] == [False, False, True, True]
    module.stage = "dense"
    assert not module.gathers(range(500))
    module = model(attn=config("attn", "dsa", top_k=3), path="plain").attention()[0]
    assert not module.gathers(range(500))


@torch.no_grad()
@both_choices
def test_later_tokens_do_not_change_the_choice(attn, path):
    """Gradients do not see through it."""
    net, ids = shaken(model(attn=attn, path=path).double()), tokens()
    changed = ids.clone()
    changed[:, 9:] = (ids[:, 9:] + 7) % SIZES.vocab_size
    close(net(ids)[0][:, :9], net(changed)[0][:, :9], 1e-12)


@both_choices
@torch.no_grad()
def test_there_is_no_loss_where_nothing_is_trained(attn):
    net, ids = model(attn=attn), tokens()
    assert net(ids)[1].keys() == {"indexer_kl"}
    assert net(ids, net.new_caches())[1] == {}
    assert net.eval()(ids)[1] == {}


@both_choices
def test_the_losses_of_layers_are_added(attn):
    net, ids, each = shaken(model(attn=attn)), tokens(), []
    for module in net.attention():
        module.register_forward_hook(lambda _, __, out: each.append(out[1]["indexer_kl"]))
    close(net(ids)[1]["indexer_kl"], sum(each), 1e-6)
    assert len(each) == SIZES.n_layers


@pytest.mark.parametrize(
    ("attn", "query_dim", "cached"), [("dsa", D, 2 * 2 * H), ("dsa_mla", D, 16 + 4), ("compressed", 12, 16 + 4)]
)
def test_sizes(attn, query_dim, cached):
    changed = {"q_rank": 12} if attn == "compressed" else {}
    module = model(attn=config("attn", "dsa_mla" if changed else attn, **changed)).attention()[0]
    shapes = {n.removeprefix("indexer."): tuple(p.shape) for n, p in module.named_parameters() if "indexer" in n}
    assert shapes == {
        "q.weight": (2 * 8, query_dim),
        "k.weight": (8, D),
        "k_norm.gain": (8,),
        "k_norm.bias": (8,),
        "w.weight": (2, D),
    }
    assert (module.n_chosen, module.indexer.rope_dim) == (4, 4)
    assert module.cache_bytes(10, element_bytes=2) == (cached + 8) * 10 * 2


@pytest.mark.parametrize(("attn", "dense"), [("dsa", "gqa"), ("dsa_mla", "mla")])
def test_the_indexer_costs_what_it_says(attn, dense):
    """Forward and weight gradients of its maps, since no gradient goes into its inputs, and three products of S."""
    net, other = model(attn=attn), model(attn=dense)
    more = training_flops_per_token(net, 100) - training_flops_per_token(other, 100)
    maps = 2 * 8 * D + 8 * D + 2 * D
    assert more == pytest.approx(SIZES.n_layers * (4 * maps + 6 * 2 * (8 + 1) * 100))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"top_k": 0}, "top_k 0 must be >= 1"),
        ({"top_k_share": 0}, "top_k_share 0 must be > 0 and <= 1"),
        ({"top_k_share": 1.5}, "top_k_share 1.5 must be > 0 and <= 1"),
        ({"index_n_heads": 0}, "index_n_heads 0 must be >= 1"),
        ({"index_n_heads_share": 0}, "index_n_heads_share 0 must be > 0"),
        ({"index_head_dim": 1}, "index_head_dim 1 must be >= 2"),
        ({"index_rope_share": 1.1}, "index_rope_share 1.1 must be > 0 and <= 1"),
    ],
)
@both_choices
def test_values_out_of_range_are_refused(attn, changed, message):
    with pytest.raises(ConfigError) as refused:
        config("attn", attn, **changed)
    assert str(refused.value) == message


def test_what_would_change_keys_is_refused_on_latents_alone():
    with pytest.raises(ConfigError) as refused:
        model(attn="dsa_mla", stability="qk_norm")
    assert str(refused.value).startswith("attn=dsa_mla with stability=qk_norm is refused")
    assert model(attn="dsa", stability="qk_norm").logits(tokens()).isfinite().all()
