"""Which choices can be computed several models at once, and that it makes no difference."""

import pytest
import torch

from contracts.menu import EVERY, MODEL_GROUPS, PATHS, label, model, shaken, tokens
from lab import choices
from lab.model.together import Together, refusal

ALONE = {("regularization", "dropout"), ("regularization", "stochastic_depth")}
"""Those that draw noise in training: trained one after another."""

ALONE_BY_TILES = {("attn", "nsa")}
"""One that sorts keys and queries into tiles, where it may choose how to compute."""

pytestmark = pytest.mark.slow


def chosen(group, name):
    return {group: [name] if group in choices.COMBINED else name}


def outputs(net, ids):
    x_BTD, losses = net(ids)
    return x_BTD, losses, net.head_weight()


def objective(x_BTD, losses, head_VD):
    weights = torch.linspace(-1, 1, x_BTD.numel(), dtype=x_BTD.dtype).view_as(x_BTD)
    return (x_BTD * weights).sum() + sum(losses.values()) + head_VD.square().sum()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("choice", EVERY, ids=label)
def test_two_models_at_once(choice, path):
    parts = chosen(*choice)
    refused = refusal(model(path=path, **parts), tokens())
    assert (refused is not None) == (choice in (ALONE | ALONE_BY_TILES if path == "sdpa" else ALONE))
    if refused is not None:
        return
    nets = [shaken(model(seed=seed, path=path, **parts).double(), seed=seed) for seed in (1, 2)]
    ids_KBT = torch.stack([tokens(seed=seed) for seed in (3, 4)])
    together = Together(nets)
    x_KBTD, losses, head_KVD = together(ids_KBT)
    each = [{name: loss[k] for name, loss in losses.items()} for k in range(2)]
    sum(objective(x_KBTD[k], each[k], head_KVD[k]) for k in range(2)).backward()
    together.hand_out_gradients()
    for k, net in enumerate(nets):
        own = shaken(model(seed=k + 1, path=path, **parts).double(), seed=k + 1)
        x_BTD, losses, head_VD = outputs(own, ids_KBT[k])
        objective(x_BTD, losses, head_VD).backward()
        torch.testing.assert_close(x_KBTD[k], x_BTD)
        torch.testing.assert_close(each[k], losses)
        for (name, weight), other in zip(net.named_parameters(), own.parameters(), strict=True):
            torch.testing.assert_close(weight.grad, other.grad, msg=name)
        torch.testing.assert_close(net.state_dict(), own.state_dict())


def test_every_group_is_looked_at():
    assert {group for group, _ in EVERY} == set(MODEL_GROUPS)
