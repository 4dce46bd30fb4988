import dataclasses
import math

import pytest
import torch
from contracts.menu import SIZES, config, model
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama

from lab.errors import ConfigError
from lab.model.layer_spec import LayerSpec

H, T = SIZES.head_dim, SIZES.max_seq_len


def rotation(spec=None, head_dim=H, **changed):
    return config("position", "rope", **changed).build(SIZES).layer(spec or LayerSpec(index=0), head_dim)


def vectors(length, *, heads=1, seed=1, width=H):
    return torch.randn(1, length, heads, width, generator=torch.Generator().manual_seed(seed))


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


@pytest.mark.parametrize("width", [8, 64])
def test_the_half_layout_is_that_of_llama_in_transformers(width):
    x_BTNH = vectors(3 * T, heads=2, width=width)
    rotary = llama.LlamaRotaryEmbedding(
        llama.LlamaConfig(hidden_size=2 * width, num_attention_heads=2, max_position_embeddings=T)
    )
    cos, sin = rotary(x_BTNH, torch.arange(3 * T)[None])
    expected, _ = llama.apply_rotary_pos_emb(x_BTNH, x_BTNH, cos, sin, unsqueeze_dim=2)
    torch.testing.assert_close(turned(x_BTNH, range(3 * T), head_dim=width), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("width", "fraction"), [(8, 1.0), (16, 0.25), (16, 0.75)])
def test_the_interleaved_layout_is_that_of_gptj(width, fraction):
    """Its first numbers are rotated, the others left alone, as in its attention."""
    x_BTNH, part = vectors(T, heads=2, width=width), int(width * fraction)
    sin, cos = gptj.create_sinusoidal_positions(T, part)[None].chunk(2, dim=-1)
    expected = torch.cat((gptj.apply_rotary_pos_emb(x_BTNH[..., :part], sin, cos), x_BTNH[..., part:]), dim=-1)
    chosen = {"layout": "interleaved", "fraction": fraction, "head_dim": width}
    torch.testing.assert_close(turned(x_BTNH, range(T), **chosen), expected, rtol=1e-6, atol=1e-6)


def test_a_part_of_a_head_turns_as_a_narrower_head_would():
    x_BTNH = vectors(T, heads=2)
    both = turned(x_BTNH, range(T), fraction=0.5)
    assert torch.equal(both[..., : H // 2], turned(x_BTNH[..., : H // 2], range(T), head_dim=H // 2))
    assert torch.equal(both[..., H // 2 :], x_BTNH[..., H // 2 :])


def test_the_layouts_are_a_permutation_of_each_other():
    x_BTNH = vectors(T, heads=2)
    evens_first = [*range(0, H, 2), *range(1, H, 2)]
    interleaved = turned(x_BTNH, range(T), layout="interleaved")[..., evens_first]
    assert torch.equal(interleaved, turned(x_BTNH[..., evens_first], range(T)))


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


@pytest.mark.parametrize(
    ("head_dim", "fraction", "text"),
    [
        (7, 1.0, "1 must be even and at least 2 for position=rope, not 7"),
        (8, 0.4, "0.4 must be"),
        (8, 0.2, "0.2 must"),
    ],
)
def test_a_part_that_makes_no_pairs_is_refused(head_dim, fraction, text):
    rope = config("position", "rope", fraction=fraction)
    with pytest.raises(ConfigError) as refused:
        model(position=rope, dims=dataclasses.replace(SIZES, head_dim=head_dim))
    assert str(refused.value).startswith(f"model.head_dim {head_dim} times position.fraction {text}")


def test_a_fraction_is_not_rounded_off_by_floating_point():
    assert config("position", "rope", fraction=0.28).width(50) == 14
    assert int(50 * 0.28) == 14
    assert config("position", "rope", fraction=0.58).width(100) == 58
    assert int(100 * 0.58) == 57


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"theta": 1}, "theta 1 must be > 1"),
        ({"fraction": 1.5}, "fraction 1.5 must be > 0 and <= 1"),
        ({"factor": 0.5}, "factor 0.5 must be >= 1"),
        ({"original_max_seq_len": 0}, "original_max_seq_len 0 must be >= 1"),
        ({"high_freq_factor": 1.0}, "high_freq_factor 1.0 must be above position.low_freq_factor 1.0"),
        ({"beta_slow": 40.0}, "beta_fast 32.0 must be above position.beta_slow 40.0"),
    ],
)
def test_values_out_of_range_are_refused(changed, text):
    with pytest.raises(ConfigError) as refused:
        config("position", "rope", **changed)
    assert str(refused.value) == text
