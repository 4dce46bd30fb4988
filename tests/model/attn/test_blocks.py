"""Sparse masks by dense pieces against a softmax over every key with the hidden ones struck out."""

import pytest
import torch
import torch.nn.functional as F
from contracts.menu import PATHS, SIZES, config, held, model, shaken, tokens
from torch.utils.flop_counter import FlopCounterMode

from lab import choices
from lab.model.attention_mask import (
    ChunkAndColumns,
    Chunked,
    Columns,
    HalfOfTheHeads,
    NearAndStrided,
    Sliding,
    SlidingAndFirst,
    Strided,
    attention_mask,
)
from lab.model.block_attention import BandBlocks, fused

N, H = 4, 3
MASKS = [
    *(Sliding(w) for w in (1, 2, 3, 8)),
    *(Chunked(w) for w in (1, 2, 5, 8)),
    *(SlidingAndFirst(w, g) for w, g in ((1, 1), (3, 1), (3, 2), (2, 5), (5, 7))),
    *(Strided(w) for w in (1, 2, 5, 8)),
    *(NearAndStrided(w) for w in (1, 2, 5, 8)),
    *(Columns(w, c) for w, c in ((1, 1), (2, 1), (5, 2), (8, 3), (4, 4))),
    *(ChunkAndColumns(w, c) for w, c in ((1, 1), (2, 1), (5, 2), (8, 3), (4, 4))),
    HalfOfTheHeads(Sliding(4), Strided(3), N),
    HalfOfTheHeads(Chunked(4), Columns(4, 1), N),
    HalfOfTheHeads(Chunked(3), SlidingAndFirst(2, 2), N),
]
LONG = [Sliding(130), Sliding(65), SlidingAndFirst(130, 3), NearAndStrided(70)]
"""Windows of several runs."""

every_mask = pytest.mark.parametrize("mask", MASKS, ids=str)


def heads(length, n_kv_heads, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(2, n, length, H) for n in (N, n_kv_heads, n_kv_heads)]
    return [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]


def slow(mask, q_BNTH, k_BKTH, v_BKTH, scale):
    length = range(q_BNTH.shape[2])
    k_BNTH, v_BNTH = (x.repeat_interleave(N // x.shape[1], dim=1) for x in (k_BKTH, v_BKTH))
    scores_BNTS = torch.einsum("bnth,bnsh->bnts", q_BNTH, k_BNTH) * scale
    weights_BNTS = (scores_BNTS + attention_mask(mask, length, length, q_BNTH)).softmax(-1)
    return torch.einsum("bnts,bnsh->bnth", weights_BNTS, v_BNTH)


def compare(mask, length, n_kv_heads):
    given, outcomes = heads(length, n_kv_heads), []
    for attend in (mask.blocks.attend, lambda *args: slow(mask, *args)):
        y_BNTH = attend(*given, 0.7)
        direction = torch.linspace(-1, 1, y_BNTH.numel(), dtype=y_BNTH.dtype).view_as(y_BNTH).sin()
        outcomes.append([y_BNTH, *torch.autograd.grad((y_BNTH * direction).sum(), given)])
    for fast, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(fast, expected, rtol=1e-10, atol=1e-12)


@every_mask
def test_equals_the_masked_softmax_in_value_and_gradient(mask):
    for beyond, n_kv_heads in ((0, N), (1, 2), (3, 1), (8, N), (17, 2)):
        compare(mask, mask.blocks.least + beyond, n_kv_heads)


@pytest.mark.slow
@every_mask
@pytest.mark.parametrize("n_kv_heads", [1, 2, N])
def test_equals_it_at_every_length_from_the_least_on(mask, n_kv_heads):
    for beyond in range(20):
        compare(mask, mask.blocks.least + beyond, n_kv_heads)


@pytest.mark.parametrize("mask", LONG, ids=str)
def test_a_wide_window_is_several_runs(mask):
    assert BandBlocks(130).before == 192
    compare(mask, 301, 2)


def counted(module, length):
    """Products of scores and weighted sums, by shapes."""

    def of_kernel(q, k, v, *_, **__):
        return 2 * q[0] * q[1] * q[2] * k[2] * (k[3] + v[3])

    kernels = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: of_kernel}
    x_BTD = torch.randn(1, length, SIZES.dim)
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=kernels) as counter:
        module(x_BTD)
    linear = sum(2 * weight.numel() * length for weight in module.parameters() if weight.ndim == 2)
    return (counter.get_total_flops() - linear) / length


KINDS = [
    ("sliding_window", {"window": 5}),
    ("sliding_window", {"window": 70}),
    ("chunked", {"window": 6}),
    ("longformer", {"window": 5, "n_global": 3}),
    *(("strided", {"stride": 5, "combine": combine}) for combine in ("alternate", "merged", "heads")),
    *(("fixed", {"block": 6, "columns": 2, "combine": combine}) for combine in ("alternate", "merged", "heads")),
]

every_kind = pytest.mark.parametrize(("name", "changed"), KINDS)


@every_kind
@pytest.mark.parametrize("length", [9, 50, 203])
def test_the_products_are_as_many_as_is_said(name, changed, length):
    for module in model(attn=config("attn", name, **changed), path="sdpa").attention():
        assert module.flops(length) == pytest.approx(counted(module, length), rel=1e-9)


@every_kind
def test_far_fewer_keys_are_computed_on_long_sequences(name, changed):
    for module in model(attn=config("attn", name, **changed), path="sdpa").attention():
        assert module.keys(9000) < 9000 / 2.5
        assert module.keys(3) == 3


@every_kind
@pytest.mark.parametrize("position", ["rope", "alibi"])
def test_the_branch_is_the_same_by_pieces_and_by_plain_products(name, changed, position):
    attn, x_BTD = config("attn", name, **changed), torch.randn(2, 43, SIZES.dim, dtype=torch.float64)
    outcomes = []
    for path in ("plain", "sdpa"):
        net = shaken(model(attn=attn, position=position, path=path)).double()
        for module in net.attention():
            y_BTD, _ = module(x_BTD)
            y_BTD.square().sum().backward()
            outcomes.append((path, [y_BTD.detach(), *(p.grad for p in module.parameters())]))
    plain, fast = ([values for found, values in outcomes if found == path] for path in ("plain", "sdpa"))
    for layer, same in zip(plain, fast, strict=True):
        for expected, found in zip(layer, same, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_a_bias_of_the_scores_is_computed_in_full():
    module = model(attn=config("attn", "chunked", window=4), position="alibi", path="sdpa").attention()[0]
    assert module.keys(64) == 64
    assert module.flops(64) == pytest.approx(counted(module, 64))


@pytest.mark.slow
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_pieces_compile_as_one_graph(mask):
    torch._dynamo.reset()
    given = [x.detach() for x in heads(29, 2)]
    compiled = torch.compile(mask.blocks.attend, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*given, 0.7), mask.blocks.attend(*given, 0.7), rtol=1e-10, atol=1e-12)


def test_pieces_are_torch_s_own_attention_where_nothing_is_hidden():
    q, k, v = heads(16, N)
    full = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.7)
    for mask in (Chunked(16), Strided(1), NearAndStrided(1), Columns(4, 4), ChunkAndColumns(4, 4)):
        torch.testing.assert_close(mask.blocks.attend(q, k, v, 0.7), full, rtol=1e-10, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("combine", ["merged", "heads"])
@pytest.mark.parametrize("name", ["strided", "fixed"])
@pytest.mark.parametrize(
    "position", [p if p == "rope" else pytest.param(p, marks=pytest.mark.slow) for p in choices.names("position")]
)
def test_decoding_equals_the_whole_forward_for_patterns_that_are_no_default(position, name, combine, path):
    attn = config("attn", name, combine=combine)
    net, ids = shaken(model(attn=attn, position=position, path=path)).eval(), tokens()
    caches, pieces = net.new_caches(), []
    for first, last in ((0, 9), (9, 10), (10, 13), (13, 16)):
        pieces.append(net(ids[:, first:last], caches, first)[0])
    torch.testing.assert_close(torch.cat(pieces, dim=1), net(ids)[0], rtol=1e-5, atol=1e-5)
    for module, cache in zip(net.attention(), caches, strict=True):
        assert sum(t.nbytes for t in held(cache)) == 2 * module.cache_bytes(16, element_bytes=4)


@pytest.mark.parametrize(("key", "value"), [(5, 3), (3, 5), (4, 4)])
@pytest.mark.parametrize("queries", [1, 9])
def test_keys_and_values_may_have_another_width(key, value, queries):
    q, k, v = (torch.randn(2, 2, n, w, dtype=torch.float64) for n, w in ((queries, key), (9, key), (9, value)))
    mask_TS = torch.ones(queries, 9).tril(9 - queries).bool()
    expected = (q @ k.mT * 0.7).masked_fill(~mask_TS, -torch.inf).softmax(-1) @ v
    torch.testing.assert_close(fused(q, k, v, 0.7, mask_TS), expected, rtol=1e-10, atol=1e-12)
    if queries == 9:
        torch.testing.assert_close(fused(q, k, v, 0.7), expected, rtol=1e-10, atol=1e-12)
