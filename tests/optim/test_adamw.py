import pytest
import torch
from contracts.menu import config

from lab.errors import ConfigError
from optim.steps import group, random


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_three_steps_equal_the_formula(decay):
    lr, beta1, beta2, eps = 0.01, 0.8, 0.9, 1e-3
    adamw = config("optim", "adamw", lr=lr, beta1=beta1, beta2=beta2, eps=eps)
    parameter = torch.nn.Parameter(random(3, 4, seed=0))
    expected, m, v = parameter.detach().clone(), torch.zeros(3, 4), torch.zeros(3, 4)
    optimizer = adamw.build([group(parameter, decay=decay)])
    for t in range(1, 4):
        g = random(3, 4, seed=t)
        parameter.grad = g.clone()
        optimizer.step()
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
        expected = expected - lr * decay * expected - lr * m_hat / (v_hat.sqrt() + eps)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-10, atol=1e-12)


def test_the_rate_may_change_between_steps():
    parameter = torch.nn.Parameter(random(3, seed=0))
    optimizer = config("optim", "adamw").build([group(parameter)])
    before = parameter.detach().clone()
    optimizer.param_groups[0]["lr"] = 0.0
    parameter.grad = random(3, seed=1)
    optimizer.step()
    assert torch.equal(parameter, before)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("lr", 0, "> 0"),
        ("grad_clip", 0, "> 0"),
        ("beta1", 1, ">= 0 and < 1"),
        ("beta2", -0.1, ">= 0 and < 1"),
        ("eps", 0, "> 0"),
    ],
)
def test_what_is_refused(key, value, allowed):
    with pytest.raises(ConfigError) as refused:
        config("optim", "adamw", **{key: value})
    assert str(refused.value) == f"{key} {value} must be {allowed}"


def test_clipping_may_be_off():
    assert config("optim", "adamw", grad_clip=None).grad_clip is None
