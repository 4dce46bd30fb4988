import dataclasses
import math

import pytest
import torch
from contracts.menu import SIZES, config, model

from lab.errors import ConfigError
from lab.model.layer_spec import LayerSpec

H, T = SIZES.head_dim, SIZES.max_seq_len


def rotation(theta=10000.0, spec=None):
    return config("position", "rope", theta=theta).build(SIZES).layer(spec or LayerSpec(index=0), H)


def vectors(length, *, heads=1, seed=1):
    return torch.randn(1, length, heads, H, generator=torch.Generator().manual_seed(seed))


def turned(x_BTNH, pos_T, **chosen):
    q_BTNH, k_BTNH = rotation(**chosen).rotate(x_BTNH, x_BTNH, pos_T)
    assert torch.equal(q_BTNH, k_BTNH)
    return q_BTNH


@pytest.mark.parametrize("theta", [100.0, 10000.0, 500000.0])
def test_equals_equation_15_in_the_half_split_layout(theta):
    x_BTNH = vectors(T, heads=3)
    expected = torch.empty_like(x_BTNH)
    for t in range(T):
        for p in range(H // 2):
            angle = t * theta ** (-2 * p / H)
            a, b = x_BTNH[0, t, :, p], x_BTNH[0, t, :, p + H // 2]
            expected[0, t, :, p] = a * math.cos(angle) - b * math.sin(angle)
            expected[0, t, :, p + H // 2] = a * math.sin(angle) + b * math.cos(angle)
    torch.testing.assert_close(turned(x_BTNH, range(T), theta=theta), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("start", [0, 3, 40])
def test_scores_depend_on_the_distance_alone(start):
    one, other = vectors(1, seed=1).expand(1, T, 1, H), vectors(1, seed=2).expand(1, T, 1, H)
    q_BTNH, k_BTNH = rotation().rotate(one, other, range(start, start + T))
    scores_TS = q_BTNH[0, :, 0] @ k_BTNH[0, :, 0].T
    for distance in range(-T + 1, T):
        diagonal = scores_TS.diagonal(-distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-5, atol=1e-5)
    assert scores_TS[:, 0].std() > 0.1


def test_keeps_norms():
    x_BTNH = vectors(T)
    torch.testing.assert_close(turned(x_BTNH, range(T)).norm(dim=-1), x_BTNH.norm(dim=-1), rtol=1e-6, atol=0)


def test_position_zero_is_left_as_it_is():
    x_BTNH = vectors(1)
    assert torch.equal(turned(x_BTNH, range(1)), x_BTNH)


def test_goes_on_beyond_the_training_length_and_by_offset():
    x_BTNH = vectors(3 * T)
    whole = turned(x_BTNH, range(3 * T))
    assert torch.equal(turned(x_BTNH[:, :T], range(T)), whole[:, :T])
    for start, stop in ((T - 2, T + 2), (2 * T, 3 * T)):
        assert torch.equal(turned(x_BTNH[:, start:stop], range(start, stop)), whole[:, start:stop])


def test_keeps_the_type_of_its_input():
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        assert turned(vectors(T).to(dtype), range(T)).dtype == dtype


def test_a_layer_may_have_its_own_theta():
    x_BTNH = vectors(T)
    own = turned(x_BTNH, range(T), spec=LayerSpec(index=0, theta=100.0))
    assert torch.equal(own, turned(x_BTNH, range(T), theta=100.0))
    assert not torch.equal(own, turned(x_BTNH, range(T)))


def test_has_no_parameters_and_nothing_in_the_state():
    assert not list(rotation().parameters())
    assert not rotation().state_dict()


def test_an_odd_head_width_is_refused():
    with pytest.raises(ConfigError) as refused:
        model(position="rope", dims=dataclasses.replace(SIZES, head_dim=7))
    assert str(refused.value) == (
        "model.head_dim 7 times position.fraction 1 must be even and at least 2 for position=rope, not 7 "
        "(with attn=mla it is attn.rope_dim that is 7)"
    )


def test_a_theta_of_one_is_refused():
    with pytest.raises(ConfigError) as refused:
        config("position", "rope", theta=1)
    assert str(refused.value) == "theta 1 must be > 1"
