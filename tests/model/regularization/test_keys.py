"""No key is dead: each one changes the training loss or some parameter's decay."""

import pytest
import torch
from contracts.menu import config, model, shaken, tokens, values

from lab import choices
from lab.model.loss import token_loss

EVERY_KEY = [
    (name, key)
    for name in choices.names("regularization")
    for key in values("regularization", name)
    if key != "name"
]


def outcome(choice):
    """The loss of a batch under one seed of noise, and each parameter's decay."""
    net, ids = shaken(model(regularization=choice, position="learned", norm="layernorm")), tokens()
    torch.manual_seed(0)
    loss = token_loss(net, net(ids)[0], ids.roll(-1, dims=1), denominator=ids.numel())
    return loss.objective.item(), [net.regularization.decay(name, p, 1e-3) for name, p in net.named_parameters()]


def another(value):
    return {False: True, True: False, "coupled": "independent"}.get(value, 0.7)


@pytest.mark.parametrize(("name", "key"), EVERY_KEY)
def test_every_key_changes_the_loss_or_the_decay(name, key):
    plain = config("regularization", name)
    changed = config("regularization", name, **{key: another(getattr(plain, key))})
    assert outcome(plain) != outcome(changed)
