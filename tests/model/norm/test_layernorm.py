import pytest
import torch
from contracts.menu import config


@pytest.fixture
def norm():
    module = config("norm", "layernorm", eps=1e-3).build(24, site="attn")
    with torch.no_grad():
        module.gain.normal_(generator=torch.Generator().manual_seed(1))
        module.bias.normal_(generator=torch.Generator().manual_seed(2))
    return module


def test_equals_the_formula_with_the_variance_over_d(norm):
    norm.double()
    x = 3 * torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 1
    mean = x.sum(-1, keepdim=True) / 24
    variance = ((x - mean) ** 2).sum(-1, keepdim=True) / 24
    expected = norm.gain * (x - mean) / (variance + 1e-3).sqrt() + norm.bias
    torch.testing.assert_close(norm(x), expected, rtol=1e-12, atol=1e-12)


def test_equals_that_of_torch_exactly(norm):
    theirs = torch.nn.LayerNorm(24, eps=1e-3)
    theirs.load_state_dict({"weight": norm.gain, "bias": norm.bias})
    x = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(3))
    assert torch.equal(norm(x), theirs(x))


def test_is_blind_to_shift_and_scale():
    norm = config("norm", "layernorm", eps=1e-12).build(24, site="attn").double()
    x = torch.randn(2, 24, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    torch.testing.assert_close(norm(5 * x + 7), norm(x), rtol=1e-9, atol=1e-9)
