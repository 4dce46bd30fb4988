"""What tests of attentions share: a stream, causal scores head by head, and a comparison with a slow version."""

import math

import torch
from contracts.menu import SIZES

N, H, D = SIZES.n_heads, SIZES.head_dim, SIZES.dim


def stream(length=7, *, seed=2, dtype=torch.float64):
    return torch.randn(2, length, D, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def head(w, x_BTD, part, n, width=H):
    """What one projection gives one head, (B, T, width)."""
    return torch.einsum("btd,hd->bth", x_BTD, w[f"{part}.weight"][n * width : (n + 1) * width])


def causal_scores(q, k, scale=H**-0.5):
    """q·k times a scale, minus infinity where the key is later than the query."""
    later = torch.tensor([[s > t for s in range(k.shape[1])] for t in range(q.shape[1])])
    return (torch.einsum("bth,bsh->bts", q, k) * scale).masked_fill(later, -math.inf)


def weighted(scores, v):
    """Sums of values by exp(score), divided by their sum."""
    e = scores.exp()
    return torch.einsum("bts,bsh->bth", e, v) / e.sum(-1, keepdim=True)


def leaves(module):
    """The module's parameters once more, for the slow version to have gradients of its own."""
    return {name: p.detach().clone().requires_grad_() for name, p in module.named_parameters()}


def assert_same(module, w, y_BTD, expected_BTD, *, rtol=1e-10, atol=1e-11):
    """Equal in value, and in the gradient of every parameter."""
    torch.testing.assert_close(y_BTD, expected_BTD, rtol=rtol, atol=atol)
    dy_BTD = stream(y_BTD.shape[1], seed=9).to(y_BTD.dtype)
    (y_BTD * dy_BTD).sum().backward()
    (expected_BTD * dy_BTD.to(expected_BTD.dtype)).sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad.any(), name
        torch.testing.assert_close(parameter.grad, w[name].grad, rtol=10 * rtol, atol=10 * atol)
