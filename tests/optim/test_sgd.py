import pytest
import torch
from contracts.menu import config

from lab.errors import ConfigError
from optim.steps import group, random, trajectory

every_momentum = pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.5, True)])


@every_momentum
def test_equals_the_sum_over_past_gradients(momentum, nesterov):
    """The buffer after t steps is the sum of μ^(t - s) g_s, written out."""
    start, decay, lr = random(3, 4, seed=0), 0.3, 0.01
    gradients = [random(3, 4, seed=t) for t in range(1, 6)]
    expected, theta = [], start
    for t, gradient in enumerate(gradients):
        total = sum(momentum ** (t - s) * gradients[s] for s in range(t + 1))
        theta = (1 - lr * decay) * theta - lr * (gradient + momentum * total if nesterov else total)
        expected.append(theta)
    parameter = torch.nn.Parameter(start.clone())
    optim = config("optim", "sgd", lr=lr, momentum=momentum, nesterov=nesterov)
    found = trajectory(optim.build([group(parameter, decay=decay)]), parameter, gradients)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


@every_momentum
def test_without_decay_equals_pytorchs(momentum, nesterov):
    gradients = [random(5, seed=t) for t in range(1, 6)]
    ours, theirs = (torch.nn.Parameter(random(5, seed=0)) for _ in range(2))
    optim = config("optim", "sgd", lr=0.1, momentum=momentum, nesterov=nesterov)
    reference = torch.optim.SGD([theirs], lr=0.1, momentum=momentum, nesterov=nesterov)
    found = trajectory(optim.build([group(ours)]), ours, gradients)
    torch.testing.assert_close(found, trajectory(reference, theirs, gradients), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"momentum": 1}, "momentum 1 must be >= 0 and < 1"),
        ({"momentum": 0, "nesterov": True}, "nesterov 'true' needs optim.momentum > 0"),
    ],
)
def test_what_is_refused(changed, said):
    with pytest.raises(ConfigError) as refused:
        config("optim", "sgd", **changed)
    assert str(refused.value) == said
