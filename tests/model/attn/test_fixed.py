"""Fixed attention: the sets of the paper, and who takes which."""

import dataclasses

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, model, shaken

from lab.errors import ConfigError
from lab.model.attention_mask import ChunkAndColumns, Chunked, Columns, HalfOfTheHeads

T, N, H, L, C = 23, SIZES.n_heads, SIZES.head_dim, 6, 2

NEAR = [[j // L == i // L and j <= i for j in range(T)] for i in range(T)]
FAR = [[j % L in range(L - C, L) and j <= i for j in range(T)] for i in range(T)]
BOTH = [[a or b for a, b in zip(near, far, strict=True)] for near, far in zip(NEAR, FAR, strict=True)]
for first in range(L - C):
    FAR[first][first] = True  # by the formula these would see nothing
SEEN = {
    ("alternate", 0): [NEAR] * N,
    ("alternate", 1): [FAR] * N,
    ("merged", 0): [BOTH] * N,
    ("merged", 1): [BOTH] * N,
    ("heads", 0): [NEAR] * (N // 2) + [FAR] * (N // 2),
    ("heads", 1): [NEAR] * (N // 2) + [FAR] * (N // 2),
}


def slow(module, x_BTD, heads_per_kv, seen):
    """Query by query and head by head, a softmax over the keys of a set."""
    q, k, v = (part(x_BTD).unflatten(-1, (-1, H)) for part in (module.q, module.k, module.v))
    y_BTNH = torch.empty_like(q)
    for n in range(N):
        for t in range(T):
            keys = [s for s in range(T) if seen[n][t][s]]
            scores = torch.einsum("bh,bsh->bs", q[:, t, n], k[:, keys, n // heads_per_kv]) / H**0.5
            y_BTNH[:, t, n] = torch.einsum("bs,bsh->bh", scores.softmax(-1), v[:, keys, n // heads_per_kv])
    return module.out(y_BTNH.flatten(2))


@torch.no_grad()
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("heads_per_kv", [1, 4])
@pytest.mark.parametrize("combine", ["alternate", "merged", "heads"])
def test_equals_a_softmax_over_the_sets_of_the_paper(combine, heads_per_kv, path):
    attn = config("attn", "fixed", block=L, columns=C, combine=combine, heads_per_kv=heads_per_kv)
    net = shaken(model(attn=attn, position="none", path=path).double())
    x_BTD = torch.randn(2, T, SIZES.dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for index, module in enumerate(net.attention()):
        expected = slow(module, x_BTD, heads_per_kv, SEEN[combine, index])
        torch.testing.assert_close(module(x_BTD)[0], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("length", "block"), [(16, 4), (18, 4), (1, 1), (4096, 64)])
def test_a_block_is_by_default_the_root_of_the_length(length, block):
    dims = dataclasses.replace(SIZES, max_seq_len=length)
    attn = config("attn", "fixed")
    assert [attn.layer(i, dims).mask for i in range(4)] == [Chunked(block), Columns(block, 1)] * 2
    assert config("attn", "fixed", block=7, columns=7).layer(1, dims).mask == Columns(7, 7)
    assert config("attn", "fixed", combine="merged").layer(1, dims).mask == ChunkAndColumns(block, 1)
    halves = config("attn", "fixed", combine="heads").layer(0, dims).mask
    assert halves == HalfOfTheHeads(Chunked(block), Columns(block, 1), N)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("combine", "kept"), [("alternate", 2 * 10), ("merged", 10 + 2 * 9), ("heads", 10 + 2 * 9)]
)
def test_a_cache_of_far_keys_holds_columns_alone(combine, kept):
    """After ten blocks of ten: the layer of far keys, or the second layer that has both."""
    module = model(attn=config("attn", "fixed", block=10, columns=2, combine=combine)).attention()[1]
    assert module.cache_bytes(100, element_bytes=2) == 2 * N * H * kept * 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"block": 0}, "block 0 must be >= 1"),
        ({"columns": 0}, "columns 0 must be >= 1"),
        ({"columns": 5}, "attn.columns 5 must be <= attn.block, here 4"),
        ({"columns": 3, "block": 2}, "attn.columns 3 must be <= attn.block, here 2"),
    ],
)
def test_values_out_of_range_are_refused(changed, message):
    with pytest.raises(ConfigError) as refused:
        config("attn", "fixed", **changed).layer(0, SIZES)
    assert str(refused.value) == message
