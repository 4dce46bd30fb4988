import math

import pytest
import torch
from contracts.menu import SIZES, config, model

from lab.model.layer_spec import LayerSpec

N, H = SIZES.n_heads, SIZES.head_dim


def layer():
    return config("position", "kerple").build(SIZES).layer(LayerSpec(index=0), H)


@pytest.mark.parametrize(("pos_T", "pos_S"), [(range(6), range(6)), (range(40, 43), range(30, 43))])
def test_equals_equation_5_in_value_and_gradient(pos_T, pos_S):
    position = layer().double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in position.parameters():
            parameter += torch.randn(N, generator=generator, dtype=torch.float64)
    q_BTNH = torch.zeros(1, len(pos_T), N, H, dtype=torch.float64)
    got = position.score_bias(q_BTNH, pos_T, pos_S, 0.123)
    a, b = (log.detach().exp().requires_grad_() for log in (position.log_a, position.log_b))
    total = 0
    for n in range(N):
        for t, i in enumerate(pos_T):
            for s, j in enumerate(pos_S):
                if j <= i:
                    expected = -a[n] * torch.log(1 + b[n] * (i - j))
                    torch.testing.assert_close(got[n, t, s], expected, rtol=1e-12, atol=1e-14)
                    total = total + (n + t - s) * expected
    total.backward()
    weights = torch.tensor(
        [[[n + t - s if j <= i else 0 for s, j in enumerate(pos_S)] for t, i in enumerate(pos_T)] for n in range(N)]
    )
    (got * weights).sum().backward()
    torch.testing.assert_close(position.log_a.grad, a.grad * a.detach(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(position.log_b.grad, b.grad * b.detach(), rtol=1e-10, atol=1e-12)


def test_starts_evenly_spread_over_the_ranges_of_the_authors():
    position = layer()
    torch.testing.assert_close(position.log_a.exp(), torch.tensor([0.25, 0.75, 1.25, 1.75]))
    torch.testing.assert_close(position.log_b.exp(), torch.tensor([0.125, 0.375, 0.625, 0.875]))


def test_every_layer_has_its_own():
    names = [name for name, _ in model(position="kerple").named_parameters() if "log_" in name]
    assert len(names) == 2 * SIZES.n_layers


def test_grows_without_bound_and_ever_slower():
    bias_S = layer().score_bias(torch.zeros(1, 1, N, H), range(1000, 1001), range(1001), 1.0)[0, 0].detach()
    steps = bias_S.diff()
    assert (steps > 0).all()
    assert (steps.diff() > 0).all()
    assert bias_S[0] == pytest.approx(-0.25 * math.log(1 + 0.125 * 1000), rel=1e-5)
