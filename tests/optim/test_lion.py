import pytest
import torch
from contracts.menu import config

from lab.errors import ConfigError
from optim.steps import group, random, trajectory


def by_the_paper(theta, gradients, *, lr, beta1, beta2, decay):
    """Algorithm 2, entry by entry."""
    points, momentum = [], [0.0] * theta.numel()
    entries = theta.flatten().tolist()
    for gradient in gradients:
        for i, g in enumerate(gradient.flatten().tolist()):
            c = beta1 * momentum[i] + (1 - beta1) * g
            sign = (c > 0) - (c < 0)
            entries[i] -= lr * (sign + decay * entries[i])
            momentum[i] = beta2 * momentum[i] + (1 - beta2) * g
        points.append(torch.tensor(entries, dtype=torch.float64).view_as(theta))
    return points


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize(("beta1", "beta2"), [(0.9, 0.99), (0.5, 0.8), (0.0, 0.0)])
def test_equals_the_algorithm(decay, beta1, beta2):
    parameter = torch.nn.Parameter(random(3, 4, seed=0))
    gradients = [random(3, 4, seed=t) for t in range(1, 7)]
    expected = by_the_paper(parameter.detach(), gradients, lr=0.01, beta1=beta1, beta2=beta2, decay=decay)
    optim = config("optim", "lion", lr=0.01, beta1=beta1, beta2=beta2)
    found = trajectory(optim.build([group(parameter, decay=decay)]), parameter, gradients)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-14)


def test_every_entry_moves_by_the_rate_and_one_without_a_gradient_not_at_all():
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = config("optim", "lion", lr=0.5).build([group(parameter)])
    (point,) = trajectory(optimizer, parameter, [torch.tensor([1e-20, 0.0, -7.0])])
    assert point.tolist() == [-0.5, 0.0, 0.5]


@pytest.mark.parametrize(
    ("key", "value", "allowed"), [("beta1", 1.1, ">= 0 and <= 1"), ("beta2", 1, ">= 0 and < 1"), ("lr", 0, "> 0")]
)
def test_what_is_refused(key, value, allowed):
    with pytest.raises(ConfigError) as refused:
        config("optim", "lion", **{key: value})
    assert str(refused.value) == f"{key} {value} must be {allowed}"
