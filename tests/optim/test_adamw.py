import pytest
import torch
from contracts.menu import config

from lab import choices
from lab.errors import ConfigError


def groups(parameters, *, decay=0.1):
    return [{"params": [p], "weight_decay": decay, "lr_scale": 1.0, "hidden": True} for p in parameters]


def random(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_three_steps_equal_the_formula(decay):
    lr, beta1, beta2, eps = 0.01, 0.8, 0.9, 1e-3
    adamw = config("optim", "adamw", lr=lr, beta1=beta1, beta2=beta2, eps=eps)
    parameter = torch.nn.Parameter(random(3, 4, seed=0))
    expected, m, v = parameter.detach().clone(), torch.zeros(3, 4), torch.zeros(3, 4)
    optimizer = adamw.build(groups([parameter], decay=decay))
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
    optimizer = config("optim", "adamw").build(groups([parameter]))
    before = parameter.detach().clone()
    optimizer.param_groups[0]["lr"] = 0.0
    parameter.grad = random(3, seed=1)
    optimizer.step()
    assert torch.equal(parameter, before)


@pytest.mark.parametrize("name", choices.names("optim"))
def test_every_optimizer_moves_each_parameter_and_keeps_its_groups(name):
    parameters = [torch.nn.Parameter(random(3, 4, seed=s).float()) for s in (0, 1)]
    optim = config("optim", name)
    optimizer = optim.build(
        [
            {"params": [parameters[0]], "weight_decay": 0.0, "lr_scale": 1.0, "hidden": True},
            {"params": [parameters[1]], "weight_decay": 0.5, "lr_scale": 0.25, "hidden": True},
        ]
    )
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.0, 0.5]
    assert [group["lr_scale"] for group in optimizer.param_groups] == [1.0, 0.25]
    assert {group["lr"] for group in optimizer.param_groups} == {optim.lr}
    before = [p.detach().clone() for p in parameters]
    for p in parameters:
        p.grad = random(3, 4, seed=7).float()
    optimizer.step()
    for old, new in zip(before, parameters, strict=True):
        assert new.isfinite().all()
        assert not (new == old).any()


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
