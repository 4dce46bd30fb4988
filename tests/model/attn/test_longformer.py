"""Longformer's attention against its definition, and against the sliding window that it contains."""

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken, tokens

from lab.errors import ConfigError
from lab.model.attention_mask import FULL, SlidingAndFirst

T, N, H = 19, SIZES.n_heads, SIZES.head_dim


def stream():
    return torch.randn(2, T, SIZES.dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@torch.no_grad()
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("window", "n_global"), [(1, 1), (3, 1), (4, 3), (2, 6), (30, 2)])
def test_equals_a_softmax_over_the_window_and_the_first_keys(window, n_global, path):
    attn = config("attn", "longformer", window=window, n_global=n_global)
    module = shaken(model(attn=attn, position="none", path=path).double()).attention()[0]
    x_BTD = stream()
    q, k, v = (part(x_BTD).unflatten(-1, (N, H)) for part in (module.q, module.k, module.v))
    y_BTNH = torch.empty_like(q)
    for t in range(T):
        keys = sorted({*range(max(0, t - window + 1), t + 1), *range(min(n_global, t + 1))})
        weights = (torch.einsum("bnh,bsnh->bns", q[:, t], k[:, keys]) / H**0.5).softmax(-1)
        y_BTNH[:, t] = torch.einsum("bns,bsnh->bnh", weights, v[:, keys])
    torch.testing.assert_close(module(x_BTD)[0], module.out(y_BTNH.flatten(2)), rtol=1e-10, atol=1e-12)


@torch.no_grad()
def test_only_queries_beyond_the_window_see_more_than_a_sliding_window_shows():
    window, n_global = 5, 2
    ours = shaken(model(attn=config("attn", "longformer", window=window, n_global=n_global)))
    theirs = model(attn=config("attn", "sliding_window", window=window))
    theirs.load_state_dict(ours.state_dict())
    x_BTD = stream().float()
    change_T = (ours.attention()[0](x_BTD)[0] - theirs.attention()[0](x_BTD)[0]).abs().amax(dim=(0, 2))
    assert change_T[:window].max() < 1e-5
    assert change_T[window:].min() > 1e-3


@torch.no_grad()
def test_with_all_tokens_global_it_is_full_attention():
    ours = shaken(model(attn=config("attn", "longformer", n_global=16)))
    full = model(attn="mha")
    full.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours.logits(tokens()), full.logits(tokens()), rtol=1e-5, atol=1e-5)


def test_a_cache_holds_the_window_and_the_first_keys():
    module = model(attn=config("attn", "longformer", window=5, n_global=2)).attention()[0]
    assert [module.cache_bytes(n, element_bytes=2) for n in (3, 7, 8, 1000)] == [
        2 * N * H * n * 2 for n in (3, 7, 7, 7)
    ]


def test_the_pattern_over_the_layers_is_that_of_windows():
    attn = config("attn", "longformer", window=None, window_share=0.5, n_global=3, global_every=2)
    assert [attn.layer(i, SIZES).mask for i in range(4)] == [SlidingAndFirst(8, 3), FULL] * 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"n_global": 0}, "n_global 0 must be >= 1"), ({"window": 0}, "window 0 must be >= 1")],
)
def test_values_out_of_range_are_refused(changed, message):
    with pytest.raises(ConfigError) as refused:
        config("attn", "longformer", **changed)
    assert str(refused.value) == message
