"""Every key of every YAML does something: another value changes logits, loss or gradients."""

import pytest
import torch
from contracts.menu import config, model, shaken, tokens, values

from lab import choices
from lab.model.loss import token_loss

OTHER = {
    "attn_softcap": {"cap": 0.5},
    "embedding_norm": {"norm": "rmsnorm", "eps": 0.1},
    "fc_norm": {"norm": "layernorm", "eps": 0.1},
    "layerscale": {"init": 0.5},
    "logit_softcap": {"cap": 0.5},
    "none": {},
    "norm_head": {"eps": 10.0},
    "qk_norm": {"norm": "l2", "over": "full", "order": "after", "layers": "positioned", "eps": 0.1},
    "qkv_clip": {"limit": 0.1},
    "qkv_norm": {"norm": "layernorm", "eps": 0.1},
    "sigma_reparam": {"gamma": 0.5, "iterations": 2},
    "softmax_temperature": {"beta": 1.0},
    "temperature_tuning": {
        "layers": "unpositioned",
        "floor_scale": 2,
        "floor_scale_share": 0.5,
        "attn_scale": 0.3,
    },
    "z_loss": {"variant": "max_logit", "weight": 0.1},
}
"""A value other than that of the YAML."""

KEYS = [(name, key) for name in choices.names("stability") for key in values("stability", name) if key != "name"]
NOPE = config("attn", "mha", nope_every=2)
"""One layer without positions, so that it matters which layers are meant."""


def outcome(stability):
    """Two steps; the second sees what a choice remembers."""
    net, ids, found = shaken(model(stability=stability, attn=NOPE).double()), tokens(), []
    for _ in range(2):
        net.zero_grad()
        loss = token_loss(net, net(ids)[0], ids.roll(-1, dims=1), denominator=ids.numel()).objective
        loss.backward()
        found += [loss.detach(), net.logits(ids).detach().sum(), *(p.grad.sum() for p in net.parameters())]
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
    return torch.stack(found[:2] + found[-3:])


def test_all_keys_are_listed():
    assert [(name, key) for name, keys in OTHER.items() for key in keys] == KEYS


def test_the_same_values_give_the_same():
    assert torch.equal(*(outcome(config("stability", "sigma_reparam")) for _ in range(2)))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "key"), KEYS)
def test_a_key_acts(name, key):
    first, second = (outcome(config("stability", name, **keys)) for keys in ({}, {key: OTHER[name][key]}))
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    "key", [("norm", "rmsnorm_1p"), ("norm", "rmsnorm_plain"), ("norm", "layernorm_no_bias"), ("over", "per_head")]
)
def test_forms_of_qk_norm_differ(key):
    first, second = (outcome(config("stability", "qk_norm", **keys)) for keys in ({}, dict([key])))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("other", ["squared_lse", "max_logit"])
def test_the_variants_of_z_loss_differ(other):
    pair = [outcome(config("stability", "z_loss", variant=v)) for v in ("squared_mean_lse", other)]
    assert not torch.equal(*pair)
