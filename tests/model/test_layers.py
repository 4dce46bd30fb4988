"""Norms that no choice of the norm group is made of; the others are tested there."""

import torch

from lab.model.layers import RMSNormPlain


def test_a_plain_rmsnorm_equals_that_of_torch_and_its_gradient_is_the_derivative():
    ours, theirs = RMSNormPlain(24, eps=1e-3), torch.nn.RMSNorm(24, eps=1e-3, elementwise_affine=False)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 5, 24, generator=generator, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(ours, (x,))
    dy = torch.randn(2, 5, 24, generator=generator, dtype=torch.float64)
    gradients = (torch.autograd.grad(norm(x), x, dy) for norm in (ours, theirs))
    torch.testing.assert_close(*gradients, rtol=1e-11, atol=1e-12)


def test_a_plain_rmsnorm_computes_in_fp32():
    norm, x = RMSNormPlain(24, eps=1e-3), torch.randn(5, 24, generator=torch.Generator().manual_seed(1)).bfloat16()
    assert norm(x).dtype == torch.bfloat16
    assert torch.equal(norm(x), norm(x.float()).bfloat16())
