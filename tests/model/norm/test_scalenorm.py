import torch
from contracts.menu import config


def test_starts_as_an_rmsnorm():
    x = torch.randn(2, 24, generator=torch.Generator().manual_seed(1))
    ours = config("norm", "scalenorm").build(24, site="attn")(x)
    torch.testing.assert_close(ours, config("norm", "rmsnorm", eps=1e-12).build(24, site="attn")(x))


def test_a_vector_of_zeros_stays_one_and_has_a_finite_gradient():
    x = torch.zeros(1, 24, requires_grad=True)
    y = config("norm", "scalenorm").build(24, site="attn")(x)
    y.sum().backward()
    assert not y.any()
    assert x.grad.isfinite().all()
