import pytest
import torch
from contracts.menu import config

from lab.errors import ConfigError
from optim.steps import group, random, trajectory


def rms(x):
    return (x**2).mean().sqrt()


def by_the_paper(theta, gradients, *, lr, decay, clip, eps1=1e-30, eps2=1e-3):
    """Algorithms 4 and 5 with relative steps, sums written as sums, and a rate in place of min(0.01, 1/sqrt(t))."""
    points, rows, columns, full = [], 0.0, 0.0, 0.0
    for t, g in enumerate(gradients, start=1):
        beta2 = 1 - t**-0.8
        square = g**2 + eps1
        if g.ndim == 2:
            rows = beta2 * rows + (1 - beta2) * square.sum(dim=1)
            columns = beta2 * columns + (1 - beta2) * square.sum(dim=0)
            second = torch.outer(rows, columns) / rows.sum()
        else:
            full = beta2 * full + (1 - beta2) * square
            second = full
        update = g / second.sqrt()
        update = update / max(1.0, rms(update) / clip)
        theta = theta - lr * decay * theta - lr * max(eps2, rms(theta)) * update
        points.append(theta)
    return points


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("shape", [(3, 4), (5,)])
@pytest.mark.parametrize("clip", [1.0, 1.2])
def test_equals_the_algorithms(shape, decay, clip):
    start = random(*shape, seed=0)
    gradients = [random(*shape, seed=t) * t for t in range(1, 6)]
    expected = by_the_paper(start, gradients, lr=0.02, decay=decay, clip=clip)
    parameter = torch.nn.Parameter(start.clone())
    optim = config("optim", "adafactor", lr=0.02, clip_threshold=clip)
    found = trajectory(optim.build([group(parameter, decay=decay)]), parameter, gradients)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


def test_rows_without_a_gradient_stay_where_they_are():
    """A table's rows for tokens that were not in the batch."""
    parameter = torch.nn.Parameter(random(3, 4, seed=0).float())
    gradient = random(3, 4, seed=1).float()
    gradient[1] = 0
    before = parameter.detach().clone()
    points = trajectory(config("optim", "adafactor").build([group(parameter)]), parameter, [gradient] * 3)
    assert points[-1].isfinite().all()
    assert torch.equal(points[-1][1], before[1])
    assert not (points[-1][0] == before[0]).any()


def test_what_starts_at_zero_moves():
    parameter = torch.nn.Parameter(torch.zeros(3, 4))
    optimizer = config("optim", "adafactor", lr=0.03, eps2=1e-3).build([group(parameter)])
    (point,) = trajectory(optimizer, parameter, [torch.ones(3, 4)])
    torch.testing.assert_close(point, torch.full((3, 4), -0.03 * 1e-3))


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [("beta2_decay", 0, "< 0"), ("eps1", 1e-30, ">= 1e-18"), ("eps2", 0, "> 0"), ("clip_threshold", 0.5, ">= 1")],
)
def test_what_is_refused(key, value, allowed):
    with pytest.raises(ConfigError) as refused:
        config("optim", "adafactor", **{key: value})
    assert str(refused.value) == f"{key} {value} must be {allowed}"
