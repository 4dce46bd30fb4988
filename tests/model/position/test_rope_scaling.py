"""Frequencies for longer sequences, against those of transformers."""

import math

import pytest
import torch
from contracts.menu import SIZES, config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama import modeling_llama as llama

from lab.errors import ConfigError
from lab.model.layer_spec import LayerSpec

T, ORIGINAL = SIZES.max_seq_len, 2048
SETTINGS = {
    "linear": {"factor": 4.0},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "yarn": {"factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0},
}


def rotation(scaling, *, head_dim=64, spec=None, **changed):
    rope = config("position", "rope", scaling=scaling, **changed)
    return rope.build(SIZES).layer(spec or LayerSpec(index=0), head_dim)


def theirs(scaling, *, head_dim=64, theta=10000.0, original=ORIGINAL, **settings):
    """The configuration of a model of transformers."""
    rope = {
        "rope_type": scaling,
        "rope_theta": theta,
        "original_max_position_embeddings": original,
        **settings,
    }
    return llama.LlamaConfig(
        hidden_size=2 * head_dim,
        num_attention_heads=2,
        max_position_embeddings=int(original * settings.get("factor", 1)),
        rope_parameters=rope,
    )


@pytest.mark.parametrize("head_dim", [16, 64, 128])
@pytest.mark.parametrize("theta", [10000.0, 500000.0])
@pytest.mark.parametrize("scaling", SETTINGS)
def test_frequencies_and_factor_are_those_of_transformers(scaling, theta, head_dim):
    ours = rotation(scaling, head_dim=head_dim, theta=theta, original_max_seq_len=ORIGINAL, **SETTINGS[scaling])
    setup = theirs(scaling, head_dim=head_dim, theta=theta, **SETTINGS[scaling])
    expected, factor = ROPE_INIT_FUNCTIONS[scaling](setup)
    assert torch.equal(ours.frequencies, expected)
    assert ours.factor == factor
    assert not torch.allclose(ours.frequencies, rotation("none", head_dim=head_dim, theta=theta).frequencies)


@pytest.mark.parametrize("scaling", SETTINGS)
def test_rotated_vectors_are_those_of_llama(scaling):
    x_BTNH = torch.randn(1, 3 * T, 2, 64, generator=torch.Generator().manual_seed(1))
    rotary = llama.LlamaRotaryEmbedding(theirs(scaling, **SETTINGS[scaling]))
    cos, sin = rotary(x_BTNH, torch.arange(3 * T)[None])
    expected, _ = llama.apply_rotary_pos_emb(x_BTNH, x_BTNH, cos, sin, unsqueeze_dim=2)
    ours = rotation(scaling, original_max_seq_len=ORIGINAL, **SETTINGS[scaling])
    got, _ = ours.rotate(x_BTNH, x_BTNH, range(3 * T))
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("factor", [2.0, 8.0])
def test_ntk_is_the_dynamic_form_at_so_many_times_the_length(factor):
    expected, _ = ROPE_INIT_FUNCTIONS["dynamic"](theirs("dynamic", factor=1.0), seq_len=int(factor * ORIGINAL))
    got = rotation("ntk", factor=factor).frequencies
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(got[-1], rotation("linear", factor=factor).frequencies[-1], rtol=1e-5, atol=0)
    assert got[0] == 1


@pytest.mark.parametrize("scaling", ["none", "linear", "ntk", "llama3", "yarn"])
def test_a_factor_of_one_changes_nothing(scaling):
    ours, plain = rotation(scaling, factor=1.0), rotation("none")
    torch.testing.assert_close(ours.frequencies, plain.frequencies, rtol=1e-6, atol=0)
    assert ours.factor == 1


def test_linear_scaling_turns_by_positions_that_are_divided():
    x_BTNH = torch.randn(1, 1, 1, 64, generator=torch.Generator().manual_seed(1))
    slow, _ = rotation("linear", factor=4.0).rotate(x_BTNH, x_BTNH, range(12, 13))
    own, _ = rotation("none").rotate(x_BTNH, x_BTNH, range(3, 4))
    torch.testing.assert_close(slow, own, rtol=1e-6, atol=1e-6)


def test_yarn_scales_scores_by_its_temperature():
    x_BTNH = torch.randn(1, 1, 1, 64, generator=torch.Generator().manual_seed(1))
    q, k = rotation("yarn", factor=4.0).rotate(x_BTNH, x_BTNH, range(5, 6))
    expected = (0.1 * math.log(4) + 1) ** 2 * (x_BTNH * x_BTNH).sum()
    torch.testing.assert_close((q * k).sum(), expected, rtol=1e-5, atol=0)


def test_the_original_length_is_the_training_length_unless_given():
    own = rotation("yarn", factor=4.0, original_max_seq_len=T).frequencies
    assert torch.equal(rotation("yarn", factor=4.0).frequencies, own)
    assert not torch.equal(rotation("yarn", factor=4.0, original_max_seq_len=8 * T).frequencies, own)


def test_a_layers_own_theta_is_scaled_too():
    own = rotation("linear", factor=2.0, spec=LayerSpec(index=0, theta=100.0)).frequencies
    assert torch.equal(own, rotation("linear", factor=2.0, theta=100.0).frequencies)


def test_a_part_is_scaled_by_its_own_width():
    part = rotation("ntk", head_dim=128, fraction=0.5, factor=4.0).frequencies
    assert torch.equal(part, rotation("ntk", head_dim=64, factor=4.0).frequencies)


def test_ntk_of_a_single_pair_is_refused():
    with pytest.raises(ConfigError, match=r"^position.scaling ntk needs more than the 2 numbers per head"):
        rotation("ntk", head_dim=2, factor=2.0)
