import pytest
import torch
from contracts.menu import config

from lab.errors import ConfigError
from optim.steps import group, random, set_rates, trajectory

A, B, C = 3.4445, -4.7750, 2.0315


def orthogonalised(matrix, steps):
    """Newton-Schulz on the singular values alone: s ← a s + b s³ + c s⁵, from s over the Frobenius norm."""
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    s = s / s.square().sum().sqrt()
    for _ in range(steps):
        s = A * s + B * s**3 + C * s**5
    return u @ torch.diag(s) @ vh


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
def test_three_steps_equal_the_formula(shape, nesterov, adjust):
    """Products are bf16's, of 8 bits, and steps lift small singular values 485-fold, so that an update is off by up
    to 6 percent; the other momentum is off by 14 percent at the least, a step fewer by 23.
    """
    lr, decay, mu = 0.1, 0.3, 0.9
    theta, running = random(*shape, seed=0), torch.zeros(shape, dtype=torch.float64)
    gradients = [random(*shape, seed=t) + 3 * torch.eye(*shape) for t in (1, 2, 3)]
    parameter = torch.nn.Parameter(theta.float())
    optim = config("optim", "muon", lr=lr, momentum=mu, nesterov=nesterov, adjust=adjust)
    optimizer = optim.build([group(parameter, decay=decay)])
    found = trajectory(optimizer, parameter, [g.float() for g in gradients])
    rows, columns = shape
    size = max(1, rows / columns) ** 0.5 if adjust == "original" else 0.2 * max(rows, columns) ** 0.5
    before = theta
    for gradient, point in zip(gradients, found, strict=True):
        running = mu * running + gradient
        direction = gradient + mu * running if nesterov else running
        expected = -lr * decay * before - lr * size * orthogonalised(direction, 5)
        moved = point.double() - before
        assert (moved - expected).norm() < 0.08 * expected.norm()
        before = point.double()


def test_singular_values_of_the_update_are_near_one():
    """Whatever the gradient's are, within the 100-fold that five steps can make up for."""
    u, _, vh = torch.linalg.svd(random(16, 16, seed=1))
    gradient = u @ torch.diag(torch.logspace(-2, 0, 16, dtype=torch.float64)) @ vh * 1e-3
    parameter = torch.nn.Parameter(torch.zeros(16, 16))
    (point,) = trajectory(config("optim", "muon", lr=1.0).build([group(parameter)]), parameter, [gradient.float()])
    values = torch.linalg.svdvals(point)
    assert 0.5 < values.min() < values.max() < 1.3


def test_the_rest_is_adamws():
    """Bit for bit what AdamW does at its own rate, with the factor that the loop multiplies by."""
    muon = config("optim", "muon", lr=0.02, adam_lr=0.005, beta1=0.8, beta2=0.9, eps=1e-3)
    adamw = config("optim", "adamw", lr=0.005, beta1=0.8, beta2=0.9, eps=1e-3)
    ends = []
    for optim in (muon, adamw):
        matrix, table, gain = (torch.nn.Parameter(random(*s, seed=0).float()) for s in ((3, 4), (5, 4), (4,)))
        scale = optim.peak_lr(hidden=False) / optim.lr
        groups = [
            group(table, decay=0.1, lr_scale=scale, hidden=False),
            group(matrix),
            group(gain, lr_scale=scale, hidden=False),
        ]
        optimizer = optim.build(groups)
        for step in range(3):
            set_rates(optim, optimizer, 0.5)
            for parameter in (matrix, table, gain):
                parameter.grad = random(*parameter.shape, seed=step + 1).float()
            optimizer.step()
        ends.append((table.detach(), gain.detach()))
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_which_parameter_goes_where(config):
    from lab.training.plan import plan
    from lab.training.state import new_state

    planned = plan(config("optim=muon", "position=learned", "norm=layernorm", "attn.out_bias=true"))
    state = new_state(planned.config, planned.architecture)
    names = {parameter: name for name, parameter in state.model.named_parameters()}
    by_kind = {True: set(), False: set()}
    for each in state.optimizer.param_groups:
        by_kind[each["hidden"]] |= {names[p] for p in each["params"]}
        assert each["lr_scale"] == (1.0 if each["hidden"] else 3e-3 / 0.02)
    parts = [f"attn.{part}" for part in ("q", "k", "v", "out")] + [f"ffn.{part}" for part in ("gate", "up", "out")]
    assert by_kind[True] == {f"blocks.0.{part}.weight" for part in parts}
    assert by_kind[False] == set(names.values()) - by_kind[True]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"momentum": 1}, "momentum 1 must be >= 0 and < 1"),
        ({"momentum": 0}, "nesterov 'true' needs optim.momentum > 0"),
        ({"ns_steps": 0}, "ns_steps 0 must be >= 1 and <= 99"),
        ({"adam_lr": 0}, "adam_lr 0 must be > 0"),
        ({"beta1": 1}, "beta1 1 must be >= 0 and < 1"),
        ({"beta2": -1}, "beta2 -1 must be >= 0 and < 1"),
        ({"eps": 0}, "eps 0 must be > 0"),
    ],
)
def test_what_is_refused(changed, said):
    from contracts.menu import config

    with pytest.raises(ConfigError) as refused:
        config("optim", "muon", **changed)
    assert str(refused.value) == said
