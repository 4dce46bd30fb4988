import dataclasses

import pytest
import torch
import torch.nn.functional as F
from contracts.menu import SIZES, config, model, shaken, tokens

from lab.errors import ConfigError
from lab.model import loss as loss_module
from lab.model.loss import token_loss


def test_the_gradient_by_a_logit_is_2_w_lse_p():
    """With the unit matrix as head, the vectors that enter it are the logits."""
    weight, V = 0.3, SIZES.dim
    dims = dataclasses.replace(SIZES, vocab_size=V)
    net = model(stability=config("stability", "z_loss", weight=weight), dims=dims).double()
    with torch.no_grad():
        net.head.weight.copy_(torch.eye(V))
    generator = torch.Generator().manual_seed(1)
    z_BTV = (3 * torch.randn(2, 5, V, generator=generator, dtype=torch.float64)).requires_grad_()
    target = tokens(2, 5, size=V)
    token_loss(net, z_BTV, target, denominator=1).objective.backward()
    with torch.no_grad():
        p_BTV, lse_BT1 = z_BTV.softmax(-1), z_BTV.logsumexp(-1, keepdim=True)
        expected = p_BTV - F.one_hot(target, V) + 2 * weight * lse_BT1 * p_BTV
    torch.testing.assert_close(z_BTV.grad, expected, rtol=1e-12, atol=1e-14)


def test_the_penalty_is_a_mean_over_the_tokens_of_the_loss():
    net, ids = shaken(model(stability=config("stability", "z_loss", weight=0.3)).double()), tokens()
    target = ids.clone()
    target[0, :9] = -1
    counted = (target >= 0).sum().item()
    value = token_loss(net, net(ids)[0], target, denominator=counted)
    lse_BT = net.logits(ids).logsumexp(-1)
    penalty = 0.3 * lse_BT[target >= 0].square().mean()
    torch.testing.assert_close(value.objective - value.nats / counted, penalty.detach(), rtol=1e-10, atol=0)


def test_a_weight_of_zero_changes_nothing():
    ids, outcomes = tokens(), []
    for stability in (config("stability", "z_loss", weight=0), "none"):
        net = model(stability=stability)
        value = token_loss(net, net(ids)[0], ids, denominator=1)
        value.objective.backward()
        outcomes.append([value.objective.detach(), *(p.grad for p in net.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))


def test_a_negative_weight_is_refused():
    with pytest.raises(ConfigError) as refused:
        config("stability", "z_loss", weight=-1e-4)
    assert str(refused.value) == "weight -0.0001 must be >= 0"


FORMULAS = {
    "squared_lse": lambda z_MV: (z_MV.exp().sum(-1).log() ** 2).sum(),
    "squared_mean_lse": lambda z_MV: z_MV.exp().sum(-1).log().mean() ** 2 * len(z_MV),
    "max_logit": lambda z_MV: (z_MV.sort(-1).values[:, -1] ** 2).sum(),
}
"""Summed over the tokens that count."""


@pytest.mark.parametrize("rows", [1, 7, 256])
@pytest.mark.parametrize("cap", [False, True], ids=["raw", "capped"])
@pytest.mark.parametrize("variant", FORMULAS)
def test_each_variant_is_the_plain_formula_in_value_and_gradient(monkeypatch, variant, cap, rows):
    """Over chunks of one token, of 7, of all; with targets that are left out."""
    monkeypatch.setattr(loss_module, "chunk_rows", lambda device, vocab_size: rows)
    stability = [config("stability", "z_loss", variant=variant, weight=0.3)]
    stability += [config("stability", "logit_softcap", cap=0.4)] if cap else []
    net, ids = shaken(model(stability=stability).double()), tokens()
    target = ids.roll(-1, dims=1)
    target[0, :9] = target[1, -1] = -1
    outcomes = []
    z_MV = net.logits(ids).flatten(0, 1)[target.flatten() >= 0]
    plain = F.cross_entropy(z_MV, target[target >= 0], reduction="sum") + 0.3 * FORMULAS[variant](z_MV)
    for value in (token_loss(net, net(ids)[0], target, denominator=29).objective, plain / 29):
        net.zero_grad()
        value.backward()
        outcomes.append({"loss": value.detach(), **{n: p.grad.clone() for n, p in net.named_parameters()}})
    for name, ours in outcomes[0].items():
        torch.testing.assert_close(
            ours, outcomes[1][name], rtol=1e-9, atol=1e-13, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_only_the_mean_asks_for_another_product_with_the_head():
    asks = {v: config("stability", "z_loss", variant=v).build(SIZES).needs_mean_lse for v in FORMULAS}
    assert asks == {"squared_lse": False, "squared_mean_lse": True, "max_logit": False}
