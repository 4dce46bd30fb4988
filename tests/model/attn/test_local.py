"""Sliding windows and chunks against a softmax with the hidden keys struck out; layers that see everything."""

import dataclasses

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken, tokens

from lab.errors import ConfigError
from lab.model.attention_mask import Chunked, Sliding
from lab.model.layer_spec import LayerSpec

T, N, H = 13, SIZES.n_heads, SIZES.head_dim
ALLOWED = {
    "sliding_window": lambda i, j, width: i - width < j <= i,
    "chunked": lambda i, j, width: i // width * width <= j <= i,
}

every_kind = pytest.mark.parametrize("name", ALLOWED)
both_paths = pytest.mark.parametrize("path", PATHS)


def stream():
    return torch.randn(2, T, SIZES.dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def slow(w, x, n_kv_heads, allowed):
    """Weights exp(q·k / sqrt(H)), those of hidden keys set to nothing, divided by their sum."""
    seen = torch.tensor([[float(allowed(i, j)) for j in range(T)] for i in range(T)], dtype=x.dtype)
    heads = []
    for n in range(N):
        g = n * n_kv_heads // N
        q = x @ w["q.weight"][n * H : (n + 1) * H].T
        k, v = (x @ w[f"{part}.weight"][g * H : (g + 1) * H].T for part in "kv")
        weights = torch.exp(torch.einsum("bih,bjh->bij", q, k) / H**0.5) * seen
        heads.append(torch.einsum("bij,bjh->bih", weights / weights.sum(-1, keepdim=True), v))
    return torch.cat(heads, -1) @ w["out.weight"].T


@every_kind
@both_paths
@pytest.mark.parametrize("heads_per_kv", [1, 2])
@pytest.mark.parametrize("window", [1, 4, 5, 13, *(pytest.param(w, marks=pytest.mark.slow) for w in (2, 12, 40))])
def test_equals_a_softmax_over_the_keys_in_reach(name, window, heads_per_kv, path):
    attn = config("attn", name, window=window, heads_per_kv=heads_per_kv)
    module = shaken(model(attn=attn, position="none", path=path).double()).attention()[0]
    w = {key: p.detach().clone().requires_grad_() for key, p in module.named_parameters()}
    x_BTD, y_BTD = stream(), module(stream())[0]
    expected = slow(w, x_BTD, N // heads_per_kv, lambda i, j: ALLOWED[name](i, j, window))
    torch.testing.assert_close(y_BTD, expected, rtol=1e-10, atol=1e-12)
    (y_BTD * x_BTD).sum().backward()
    (expected * x_BTD).sum().backward()
    for key, parameter in module.named_parameters():
        torch.testing.assert_close(parameter.grad, w[key].grad, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@torch.no_grad()
@every_kind
@both_paths
@pytest.mark.parametrize("position", ["none", "rope", "learned"])
def test_a_window_as_long_as_the_sequence_is_full_attention(name, position, path):
    full = shaken(model(attn="mha", position=position, path=path).double())
    for window, same in ((16, True), (17, True), (15, False)):
        local = model(attn=config("attn", name, window=window), position=position, path=path).double()
        local.load_state_dict(full.state_dict())
        close = torch.allclose(local.logits(tokens()), full.logits(tokens()), rtol=1e-10, atol=1e-12)
        assert close == same, window


@pytest.mark.parametrize(
    ("share", "length", "width"), [(0.25, 16, 4), (0.25, 18, 4), (0.3, 15, 4), (0.01, 16, 1), (1, 9, 9)]
)
@every_kind
def test_a_share_is_of_the_training_length(name, share, length, width):
    dims = dataclasses.replace(SIZES, max_seq_len=length)
    made = model(attn=config("attn", name, window_share=share), dims=dims)
    assert [module.layer.mask.window for module in made.attention()] == [width] * SIZES.n_layers
    made = model(attn=config("attn", name, window_share=share, window=3), dims=dims)
    assert [module.layer.mask.window for module in made.attention()] == [3] * SIZES.n_layers


@torch.no_grad()
@every_kind
@both_paths
@pytest.mark.parametrize(("every", "wide"), [(None, []), (1, [0, 1, 2, 3, 4]), (2, [1, 3]), (3, [2])])
def test_the_last_of_every_few_layers_sees_everything(name, every, wide, path):
    dims = dataclasses.replace(SIZES, n_layers=5)
    attn = config("attn", name, window=3, global_every=every)
    net = shaken(model(attn=attn, position="none", dims=dims, path=path).double())
    for index, module in enumerate(net.attention()):
        window = T if index in wide else 3
        expected = slow(dict(module.named_parameters()), stream(), N, lambda i, j, w=window: ALLOWED[name](i, j, w))
        torch.testing.assert_close(module(stream())[0], expected, rtol=1e-10, atol=1e-12)
        assert module.cache_bytes(T, element_bytes=2) == 2 * N * H * window * 2


@every_kind
def test_layers_that_see_everything_may_have_a_base_of_their_own(name):
    attn = config("attn", name, window=3, global_every=2, global_theta=5e5)
    rope = config("position", "rope", theta=700.0)
    dims = dataclasses.replace(SIZES, n_layers=4)
    net = model(attn=attn, position=rope, dims=dims)
    q_BTNH = torch.ones(1, T, N, H)
    for module, theta in zip(net.attention(), (700.0, 5e5, 700.0, 5e5), strict=True):
        turned, _ = module.position.rotate(q_BTNH, q_BTNH, range(T))
        angle = torch.arange(T)[:, None] * theta ** (-torch.arange(H // 2) * 2 / H)
        torch.testing.assert_close(turned[0, :, 0, : H // 2], angle.cos() - angle.sin(), rtol=1e-5, atol=1e-5)


@every_kind
def test_windows_and_layers_without_positions_go_together(name):
    attn = config("attn", name, window=8, global_every=4, nope_every=4)
    layers = [attn.layer(index, SIZES) for index in range(4)]
    mask = {"sliding_window": Sliding, "chunked": Chunked}[name](8)
    assert layers[:3] == [LayerSpec(index=i, mask=mask) for i in range(3)]
    assert layers[3] == LayerSpec(index=3, position_on=False)


@every_kind
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"window": 0}, "window 0 must be >= 1"),
        ({"window_share": 0}, "window_share 0 must be > 0 and <= 1"),
        ({"window_share": 1.5}, "window_share 1.5 must be > 0 and <= 1"),
        ({"global_every": 0}, "global_every 0 must be >= 1"),
        ({"global_theta": 1e6}, "global_theta 1000000.0 needs attn.global_every"),
        ({"global_theta": 1.0, "global_every": 2}, "global_theta 1.0 must be > 1"),
    ],
)
def test_values_out_of_range_are_refused(name, changed, message):
    with pytest.raises(ConfigError) as refused:
        config("attn", name, **changed)
    assert str(refused.value) == message
