import dataclasses

import pytest
import torch
from contracts.menu import SIZES, config, model

from lab.errors import ConfigError
from lab.model.layer_spec import LayerSpec


def factors(pos_T, **keys):
    part = config("stability", "temperature_tuning", **keys).build(SIZES).attention(LayerSpec(index=0), SIZES, 2)
    q_BTNH = torch.ones(1, len(pos_T), 1, 1, dtype=torch.float64)
    return part.rotated(q_BTNH, q_BTNH, pos_T)[0].flatten()


def test_the_factor_of_llama_4_is_a_step_function_of_the_position():
    expected = torch.tensor([1, 1, 2, 2, 3], dtype=torch.float64).log() * 0.1 + 1
    picked = [factors(range(t, t + 1), floor_scale=8192, attn_scale=0.1)[0] for t in (0, 8190, 8191, 16382, 16383)]
    torch.testing.assert_close(torch.stack(picked), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize(("share", "same_as"), [(0.25, 4), (0.5, 8), (1.0, 16), (0.01, 1)])
def test_a_share_is_of_the_training_length(share, same_as):
    pos_T = range(40)
    by_share = factors(pos_T, floor_scale_share=share)
    assert torch.equal(by_share, factors(pos_T, floor_scale=same_as))


def test_layers_with_positions_are_left_out_where_asked():
    attn = config("attn", "mha", nope_every=2)
    for layers, expected in (("all", [True, True]), ("unpositioned", [False, True])):
        net = model(stability=config("stability", "temperature_tuning", layers=layers), attn=attn)
        assert [hasattr(a.stability, "temperature_tuning") for a in net.attention()] == expected


def test_keys_and_the_type_of_queries_stay():
    part = config("stability", "temperature_tuning").build(SIZES)
    hooks = part.attention(LayerSpec(index=0), dataclasses.replace(SIZES), 2)
    x = torch.ones(1, 4, 1, 2, dtype=torch.bfloat16)
    q, k = hooks.rotated(x, x, range(4))
    assert q.dtype == torch.bfloat16
    assert k is x


def test_a_step_of_no_positions_is_refused():
    with pytest.raises(ConfigError) as refused:
        config("stability", "temperature_tuning", floor_scale=0)
    assert str(refused.value) == "floor_scale 0 must be >= 1"
