import math

import pytest
import torch
from contracts.menu import SIZES, architecture, config, model, shaken, tokens
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

from lab.model.sinusoids import Sinusoids

T, D = SIZES.max_seq_len, SIZES.dim


def rows(start, stop, **changed):
    position = config("position", "sinusoidal", **changed).build(SIZES)
    return position.embed(torch.zeros(1, stop - start, D), start)[0]


def test_equals_the_formula():
    got = rows(0, T)
    for t in range(T):
        for p in range(D // 2):
            angle = t / 10000 ** (2 * p / D)
            assert got[t, 2 * p].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert got[t, 2 * p + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("dim", [D, 7])
def test_the_half_layout_is_that_of_marian(dim):
    expected = MarianSinusoidalPositionalEmbedding(T, dim).create_weight()
    torch.testing.assert_close(Sinusoids(T, dim, layout="half")(0, T), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("dim", [D, 7])
def test_the_layouts_are_a_permutation_of_each_other(dim):
    interleaved, half = (Sinusoids(T, dim, layout=layout)(0, T) for layout in ("interleaved", "half"))
    assert torch.equal(interleaved[:, [*range(0, dim, 2), *range(1, dim, 2)]], half)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_goes_on_beyond_the_training_length_and_by_offset(layout):
    whole = rows(0, 3 * T, layout=layout)
    for start, stop in ((0, T), (3, 9), (T - 2, T + 2), (2 * T, 3 * T)):
        assert torch.equal(rows(start, stop, layout=layout), whole[start:stop])


def test_is_added_to_the_scaled_token():
    net, ids = model(position="sinusoidal", ends={"embed_scale": "sqrt_dim"}), tokens(1)
    seen = []
    net.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    net(ids)
    assert torch.equal(seen[0], net.embedding(ids) * D**0.5 + rows(0, T))


def test_has_no_parameters_and_nothing_in_the_state():
    position = shaken(architecture(position="sinusoidal").build(study_seed=0, seed=1)).position
    assert not list(position.parameters())
    assert not position.state_dict()
