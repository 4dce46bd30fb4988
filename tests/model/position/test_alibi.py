import pytest
import torch
from contracts.menu import SIZES, architecture, config
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

from lab.model.layer_spec import LayerSpec
from lab.model.position.alibi import LayerLinearBias, slopes

N, H = SIZES.n_heads, SIZES.head_dim
every_count = pytest.mark.parametrize("n_heads", [1, 2, 3, 6, 8, 12, 16, 20, 71])


def bias(pos_T, pos_S, n_heads=N, dtype=torch.float32):
    made = LayerLinearBias(slopes(n_heads))
    return made.score_bias(torch.zeros(1, len(pos_T), n_heads, H, dtype=dtype), pos_T, pos_S, 1.0)


def test_the_slopes_of_the_paper():
    assert slopes(8) == [2.0**-h for h in range(1, 9)]
    assert slopes(16)[:3] == [2**-0.5, 2**-1, 2**-1.5]
    assert slopes(16)[-1] == 1 / 256
    assert slopes(12) == [*slopes(8), *slopes(16)[::2][:4]]


@every_count
def test_slopes_are_those_of_bloom(n_heads):
    """Which adds m j: the same, but for a number per query."""
    expected = build_alibi_tensor(torch.ones(1, 9), n_heads, torch.float32)
    got = bias(range(9), range(9), n_heads)
    torch.testing.assert_close(got - got[:, :, :1], expected.expand(-1, 9, -1), rtol=1e-6, atol=0)


@every_count
def test_slopes_are_those_of_mpt(n_heads):
    """Which adds m (j - last), the penalty of the last query."""
    expected = build_mpt_alibi_tensor(n_heads, 9)
    torch.testing.assert_close(bias(range(8, 9), range(9), n_heads), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("pos_T", "pos_S"), [(range(6), range(6)), (range(40, 43), range(30, 43))])
def test_the_penalty_is_slope_times_distance_and_is_not_scaled(pos_T, pos_S):
    position = config("position", "alibi").build(SIZES).layer(LayerSpec(index=0), H)
    got = position.score_bias(torch.zeros(1, len(pos_T), N, H), pos_T, pos_S, 0.123)
    for n, slope in enumerate([0.25, 0.0625, 1 / 64, 1 / 256]):
        expected = torch.tensor([[-slope * (i - j) for j in pos_S] for i in pos_T])
        assert torch.equal(got[n], expected)


def test_is_exact_in_bf16_training():
    assert bias(range(300, 301), range(301), dtype=torch.bfloat16)[3, 0, 1].item() == -299 / 256


def test_learns_nothing():
    assert not list(architecture(position="alibi").outline().position.parameters())
    assert not [name for name in architecture(position="alibi").outline().state_dict() if "position" in name]
