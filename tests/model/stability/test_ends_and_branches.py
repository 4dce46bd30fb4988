"""Choices at the embedding, the head and the ends of branches, against their formulas: values and gradients."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from contracts.menu import SIZES, config, model, shaken, tokens

from lab.errors import ConfigError
from lab.model import loss as loss_module
from lab.model.loss import token_loss
from model.stability.slow import centred, rms


def gradients(net, value):
    net.zero_grad()
    value.backward()
    return {name: p.grad.clone() for name, p in net.named_parameters()}


HEADS = {
    "logit_softcap": ({"cap": 0.5}, lambda z: z, lambda z: 0.5 * (1 - 2 / (1 + (2 * z / 0.5).exp()))),
    "norm_head": ({}, lambda w: w / (w * w).sum(-1, keepdim=True).sqrt(), lambda z: z),
}


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("name", HEADS)
def test_logits_and_loss(monkeypatch, name, tied):
    monkeypatch.setattr(loss_module, "chunk_rows", lambda device, vocab_size: 7)
    keys, of_weight, of_logits = HEADS[name]
    net, ids = shaken(model(stability=config("stability", name, **keys), tied=tied).double()), tokens()
    target = ids.roll(-1, dims=1)
    target[0, 4:9] = -1
    weight_VD = net.embedding.weight if tied else net.head.weight
    z_BTV = of_logits(net(ids)[0] @ of_weight(weight_VD).T)
    torch.testing.assert_close(net.logits(ids), z_BTV, rtol=1e-10, atol=1e-12)
    plain = F.cross_entropy(z_BTV.flatten(0, 1), target.flatten(), ignore_index=-1, reduction="sum") / 29
    expected = gradients(net, plain)
    value = token_loss(net, net(ids)[0], target, denominator=29).objective
    torch.testing.assert_close(value, plain, rtol=1e-10, atol=0)
    for key, gradient in gradients(net, value).items():
        torch.testing.assert_close(gradient, expected[key], rtol=1e-9, atol=1e-13)


@torch.no_grad()
def test_logits_lie_within_the_cap_and_a_huge_cap_is_off():
    plain = shaken(model().double())
    huge = shaken(model(stability=config("stability", "logit_softcap", cap=1e9)).double())
    torch.testing.assert_close(huge.logits(tokens()), plain.logits(tokens()), rtol=1e-10, atol=1e-12)
    assert plain.logits(tokens()).abs().max() > 0.1
    capped = shaken(model(stability=config("stability", "logit_softcap", cap=0.1)))
    assert capped.logits(tokens()).abs().max() <= 0.1


@torch.no_grad()
def test_lengths_of_the_heads_rows_do_not_count():
    net, ids = shaken(model(stability="norm_head").double()), tokens()
    before = net.logits(ids)
    net.head.weight.mul_(torch.linspace(0.1, 10, SIZES.vocab_size)[:, None])
    torch.testing.assert_close(net.logits(ids), before, rtol=1e-10, atol=1e-12)


def first_input(net, ids):
    seen = []
    with net.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args[0])):
        net(ids)
    return seen[0]


@pytest.mark.parametrize("position", ["rope", "learned"])
@pytest.mark.parametrize(("norm", "formula"), [("layernorm", centred), ("rmsnorm", rms)])
def test_the_embedding_norm_acts_on_the_sum_of_embeddings(norm, formula, position):
    stability = config("stability", "embedding_norm", norm=norm, eps=1e-2)
    net, ids = shaken(model(stability=stability, position=position).double()), tokens()
    part, summed = net.stability.embedding_norm.norm, net.position.embed(net.embedding(ids), 0)
    expected = formula(summed, 1e-2) * part.gain
    expected = expected + part.bias if norm == "layernorm" else expected
    ours = first_input(net, ids)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
    dy = torch.randn(ours.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    wanted = (net.embedding.weight, *part.parameters())
    for mine, other in zip(
        torch.autograd.grad(ours, wanted, dy), torch.autograd.grad(expected, wanted, dy), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


def branches(net, x_BTD, changed):
    """A pre-norm model without dropout: x ← x + changed(branch, its end)."""
    for block in net.blocks:
        x_BTD = x_BTD + changed(block.attn(block.attn_norm(x_BTD))[0], block.attn_end)
        x_BTD = x_BTD + changed(block.ffn(block.ffn_norm(x_BTD)), block.ffn_end)
    return net.final_norm(x_BTD)


ENDS = {
    "layerscale": ({"init": 0.3}, lambda y, end: y * end[0][0].gain),
    "fc_norm": ({"eps": 1e-2}, lambda y, end: rms(y, 1e-2) * end[0][0].gain),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends_of_branches(name):
    keys, changed = ENDS[name]
    net, ids = shaken(model(stability=config("stability", name, **keys)).double()), tokens()
    outcomes = []
    for x_BTD in (net(ids)[0], branches(net, net.embedding(ids), changed)):
        found = gradients(net, x_BTD.pow(3).sum() + 0 * net.head.weight.sum())
        outcomes.append({"x_BTD": x_BTD.detach(), **found})
    for key, ours in outcomes[0].items():
        torch.testing.assert_close(ours, outcomes[1][key], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("n_layers", "start"), [(1, 0.1), (18, 0.1), (19, 1e-5), (24, 1e-5), (25, 1e-6)])
def test_layerscale_starts_lower_the_deeper_the_model(n_layers, start):
    dims = dataclasses.replace(SIZES, n_layers=n_layers, dim=4, n_heads=1, head_dim=4)
    gains = [p for name, p in model(stability="layerscale", dims=dims).named_parameters() if "layerscale" in name]
    assert len(gains) == 2 * n_layers
    assert all((p == torch.tensor(start)).all() for p in gains)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("logit_softcap", "cap", 0),
        ("attn_softcap", "cap", -1.0),
        ("qkv_clip", "limit", 0),
        ("qkv_norm", "eps", 0),
        ("embedding_norm", "eps", 0),
        ("fc_norm", "eps", 0),
        ("norm_head", "eps", 0),
        ("layerscale", "init", 0),
        ("softmax_temperature", "beta", 0),
        ("temperature_tuning", "floor_scale_share", 0),
    ],
)
def test_what_is_refused(name, key, value):
    with pytest.raises(ConfigError) as refused:
        config("stability", name, **{key: value})
    assert str(refused.value) == f"{key} {value} must be > 0"
