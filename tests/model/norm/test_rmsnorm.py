import pytest
import torch
from contracts.menu import config

from lab.model.rms_norm import rms_norm


@pytest.fixture
def norm():
    module = config("norm", "rmsnorm", eps=1e-3).build(24, site="attn")
    with torch.no_grad():
        module.gain.normal_(generator=torch.Generator().manual_seed(1))
    return module


def test_equals_the_formula(norm):
    norm.double()
    x = 3 * torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 1
    expected = norm.gain * x / ((x * x).sum(-1, keepdim=True) / 24 + 1e-3).sqrt()
    torch.testing.assert_close(norm(x), expected, rtol=1e-12, atol=1e-12)


def test_equals_that_of_torch_exactly(norm):
    theirs = torch.nn.RMSNorm(24, eps=1e-3)
    theirs.load_state_dict({"weight": norm.gain})
    x = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(3))
    assert torch.equal(norm(x), theirs(x))


def test_its_gradient_is_the_derivative(norm):
    norm.double()
    x = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(3), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, gain: rms_norm(x, gain, 1e-3), (x, norm.gain))


def test_its_gradient_is_that_of_torch(norm):
    x = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(3), requires_grad=True)
    dy = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(4))
    theirs = torch.nn.functional.rms_norm(x, (24,), norm.gain, 1e-3)
    expected = torch.autograd.grad(theirs, (x, norm.gain), dy)
    ours = torch.autograd.grad(rms_norm(x, norm.gain, 1e-3), (x, norm.gain), dy)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def test_in_bf16_is_the_fp32_result_rounded(norm):
    x = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(3)).bfloat16()
    y = norm(x)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, norm(x.float()).bfloat16())


def test_is_blind_to_scale_but_not_to_shift():
    norm = config("norm", "rmsnorm", eps=1e-12).build(24, site="attn").double()
    x = torch.randn(2, 24, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    torch.testing.assert_close(norm(5 * x), norm(x), rtol=1e-9, atol=1e-9)
    assert not torch.allclose(norm(x + 7), norm(x), rtol=0.1)
