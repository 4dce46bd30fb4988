"""Every block against its formula, as a whole model written here without lab, in fp64: loss and every gradient."""

import dataclasses
import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from contracts.menu import SIZES, config, model, shaken, tokens
from torch import nn

from lab import choices
from lab.model.loss import token_loss
from lab.model.stability import Stability, StabilityConfig

L, N, H = 3, SIZES.n_heads, SIZES.head_dim
DIMS = dataclasses.replace(SIZES, n_layers=L)
CHOSEN = {"norm": "layernorm", "attn": "mha", "activation": "relu", "position": "none", "init": "normal"}


class Affine(nn.Module):
    """An end of a branch that commutes neither with a norm nor with an addition."""

    def forward(self, y_BTD):
        return 2 * y_BTD + 1


class Ends(Stability):
    def branch(self, spec, dims, site):
        return Affine()


@dataclass(frozen=True, kw_only=True)
class EndsConfig(StabilityConfig):
    def build(self, dims):
        return Ends()


class Layer:
    """The functions of one layer, from weights by name."""

    def __init__(self, w, index, end):
        self.w, self.index, self.end = w, index, end

    def __getitem__(self, name):
        return self.w[f"blocks.{self.index}.{name}"]

    def norm(self, name, x):
        centred = x - x.mean(-1, keepdim=True)
        unit = centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        return unit * self[f"{name}.gain"] + self[f"{name}.bias"]

    def attn(self, x):
        heads, hidden = [], torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        for n in range(N):
            q, k, v = (x @ self[f"attn.{part}.weight"][n * H : (n + 1) * H].T for part in "qkv")
            scores = (q @ k.transpose(-1, -2) / math.sqrt(H)).masked_fill(hidden, -math.inf)
            heads.append(scores.softmax(-1) @ v)
        return torch.cat(heads, -1) @ self["attn.out.weight"].T

    def ffn(self, x):
        return (x @ self["ffn.up.weight"].T).clamp(min=0) @ self["ffn.out.weight"].T


def pre(m, x):
    h = x + m.end(m.attn(m.norm("attn_norm", x)))
    return h + m.end(m.ffn(m.norm("ffn_norm", h)))


def post(m, x, alpha=1.0):
    h = m.norm("attn_norm", alpha * x + m.end(m.attn(x)))
    return m.norm("ffn_norm", alpha * h + m.end(m.ffn(h)))


def sandwich(m, x):
    h = x + m.end(m.norm("attn_out_norm", m.attn(m.norm("attn_norm", x))))
    return h + m.end(m.norm("ffn_out_norm", m.ffn(m.norm("ffn_norm", h))))


def reordered(m, x):
    h = x + m.end(m.norm("attn_out_norm", m.attn(x)))
    return h + m.end(m.norm("ffn_out_norm", m.ffn(h)))


def parallel(m, x, second="attn_norm"):
    return x + m.end(m.attn(m.norm("attn_norm", x))) + m.end(m.ffn(m.norm(second, x)))


def rezero(m, x):
    h = x + m["attn_scale"] * m.end(m.attn(x))
    return h + m["ffn_scale"] * m.end(m.ffn(h))


def rezero_norm(m, x):
    h = x + m["attn_scale"] * m.end(m.attn(m.norm("attn_norm", x)))
    return h + m["ffn_scale"] * m.end(m.ffn(m.norm("ffn_norm", h)))


def no_residual(m, x):
    h = m.end(m.attn(m.norm("attn_norm", x)))
    return m.end(m.ffn(m.norm("ffn_norm", h)))


def fixup(m, x):
    for name, f in (("attn", m.attn), ("ffn", m.ffn)):
        y = m.end(f(m.norm(f"{name}_norm", x) + m[f"{name}_scalars.bias_in"]))
        x = x + m[f"{name}_scalars.scale"] * y + m[f"{name}_scalars.bias_out"]
    return x


FORMULAS = {
    "pre": pre,
    "post": post,
    "sandwich": sandwich,
    "reordered": reordered,
    "peri": sandwich,
    "parallel": parallel,
    "parallel_two_norms": lambda m, x: parallel(m, x, "ffn_norm"),
    "rezero": rezero,
    "rezero_norm": rezero_norm,
    "deepnorm": lambda m, x: post(m, x, alpha=(2 * L) ** (1 / 4)),
    "mix_ln": lambda m, x: (post if m.index < 2 else pre)(m, x),
    "no_residual": no_residual,
    "fixup": fixup,
}
CHANGED = {"mix_ln": {"post_share": 0.67}}
NO_FINAL_NORM = {"post", "rezero", "deepnorm"}

every_block = pytest.mark.parametrize("name", choices.names("block"))


def plain_logits(name, w, ids, end):
    def norm(site, x):
        return F.layer_norm(x, x.shape[-1:], w[f"{site}.gain"], w[f"{site}.bias"], 1e-5)

    x = w["embedding.weight"][ids]
    x = norm("embed_norm", x) if name == "peri" else x
    for index in range(L):
        x = FORMULAS[name](Layer(w, index, end), x)
    return (x if name in NO_FINAL_NORM else norm("final_norm", x)) @ w["head.weight"].T


@every_block
@pytest.mark.parametrize("ends", [False, True], ids=["plain", "ends"])
def test_the_model_equals_its_formula_in_value_and_gradient(name, ends):
    stability = EndsConfig(name="ends") if ends else "none"
    block = config("block", name, **CHANGED.get(name, {}))
    net, ids = shaken(model(**CHOSEN, block=block, stability=stability, dims=DIMS).double()), tokens()
    w = {key: p.detach().clone().requires_grad_() for key, p in net.named_parameters()}
    target = ids.roll(-1, dims=1)

    expected = plain_logits(name, w, ids, Affine() if ends else lambda y: y)
    loss = F.cross_entropy(expected.flatten(0, 1), target.flatten())
    loss.backward()
    objective = token_loss(net, net(ids)[0], target, denominator=target.numel()).objective
    objective.backward()

    torch.testing.assert_close(net.logits(ids), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(objective, loss, rtol=1e-12, atol=0)
    for key, parameter in net.named_parameters():
        torch.testing.assert_close(parameter.grad, w[key].grad, rtol=1e-9, atol=1e-12, msg=lambda m, k=key: k + m)


@every_block
def test_no_block_is_another_under_the_same_weights(name):
    """Of the formulas above, only Peri-LN's block is that of another choice, and it differs by a norm outside."""
    ids, same = tokens(), []
    net = shaken(model(**CHOSEN, block=config("block", name, **CHANGED.get(name, {})), dims=DIMS).double())
    w = {key: p.detach() for key, p in net.named_parameters()}
    for other in FORMULAS:
        try:
            expected = plain_logits(other, w, ids, lambda y: y)
        except KeyError:  # it has parameters that this one lacks
            continue
        same += [other] if torch.allclose(net.logits(ids), expected, rtol=1e-6, atol=1e-6) else []
    assert same == [name]
