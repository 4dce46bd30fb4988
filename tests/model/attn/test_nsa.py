"""NSA against the paper's sums, and against dense attention where the two are the same."""

import dataclasses

import pytest
import torch
from contracts.menu import PATHS, SIZES, config, held, model, shaken, tokens

from lab.errors import ConfigError
from lab.model import nsa_attention, nsa_tiles
from lab.model.nsa_blocks import Sizes, block_scores, choose

from .nsa_reference import attend, turn

T, N, H = 19, SIZES.n_heads, SIZES.head_dim
BRANCHES = ("compressed", "selected", "window")
SHAPES = {
    "overlapping": {"stride": 2, "block": 4, "select_block": 4, "n_selected": 3, "window": 5},
    "wide": {"stride": 1, "block": 2, "select_block": 4, "n_selected": 4, "window": 3},
    "apart": {"stride": 3, "block": 3, "select_block": 3, "n_selected": 4, "window": 2},
    "narrow": {"stride": 1, "block": 3, "select_block": 2, "n_selected": 5, "window": 40},
}

SLOW = pytest.mark.slow
both_paths = pytest.mark.parametrize("path", PATHS)
every_shape = pytest.mark.parametrize("shape", SHAPES)


def made(*, heads_per_kv=2, path="plain", position="none", scale=0.2, **changed):
    attn = config("attn", "nsa", **{**SHAPES["overlapping"], "heads_per_kv": heads_per_kv, **changed})
    return shaken(model(attn=attn, position=position, path=path).double(), scale=scale).eval()


def stream(length=T, seed=2):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, length, SIZES.dim, generator=generator, dtype=torch.float64)


def assert_equals_the_sums(module, tolerance=1e-10, **how):
    w = {key: p.detach().clone().requires_grad_() for key, p in module.named_parameters()}
    x_BTD = stream()
    y_BTD, _ = module(x_BTD)
    expected = torch.stack([attend(w, x, module.sizes, N, module.n_kv_heads, **how) for x in x_BTD])
    torch.testing.assert_close(y_BTD, expected, rtol=tolerance, atol=tolerance)
    (y_BTD * x_BTD).sum().backward()
    (expected * x_BTD).sum().backward()
    for key, parameter in module.named_parameters():
        assert parameter.grad.any(), key
        torch.testing.assert_close(parameter.grad, w[key].grad, rtol=tolerance, atol=10 * tolerance)


@both_paths
@pytest.mark.parametrize(
    ("shape", "heads_per_kv"),
    [
        ("overlapping", 2),
        pytest.param("wide", 4, marks=SLOW),
        pytest.param("wide", 2, marks=SLOW),
        pytest.param("apart", 1, marks=SLOW),
        pytest.param("narrow", 2, marks=SLOW),
    ],
)
def test_equals_the_sums_in_value_and_gradient(shape, heads_per_kv, path):
    changed = {**SHAPES[shape], "gate_bias": shape == "wide"}
    assert_equals_the_sums(made(heads_per_kv=heads_per_kv, path=path, **changed).attention()[0])


@SLOW
@both_paths
def test_positions_act_in_the_selected_and_the_window_branch(path):
    # Rotary angles are fp32 on both sides and may differ by a rounding, about 1e-6 at 18 radians.
    assert_equals_the_sums(made(path=path, position="rope").attention()[0], tolerance=1e-5, turn=turn)


def outcome(net, x_BTD):
    net.zero_grad()
    module = net.attention()[0]
    y_BTD, _ = module(x_BTD)
    (y_BTD * x_BTD).sum().backward()
    return [y_BTD.detach(), *(p.grad.clone() for p in module.parameters())]


@pytest.mark.slow
@every_shape
@pytest.mark.parametrize("length", [9, 64])
def test_pieces_of_the_fast_path_are_put_together(monkeypatch, shape, length):
    x_BTD = stream(length)
    expected = outcome(made(**SHAPES[shape]), x_BTD)
    monkeypatch.setattr(nsa_tiles, "SCORES_AT_ONCE", 100)
    monkeypatch.setattr(nsa_tiles, "WINDOW_QUERIES", 4)
    monkeypatch.setattr(nsa_attention, "QUERIES_AT_ONCE", 7)
    net = made(path="sdpa", **SHAPES[shape])
    assert net.attention()[0].path == "sdpa"
    for fast, slow in zip(outcome(net, x_BTD), expected, strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-11)


def test_what_a_compiler_sees_is_the_same(monkeypatch):
    net, x_BTD = made(path="sdpa"), stream()
    expected = outcome(net, x_BTD)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    for traced, own in zip(outcome(net, x_BTD), expected, strict=True):
        torch.testing.assert_close(traced, own, rtol=1e-10, atol=1e-11)


def gated(net, *branches):
    """Gates of these branches at one, of the others at zero."""
    with torch.no_grad():
        for module in net.attention():
            module.gate.weight.zero_()
            module.gate.bias.copy_(
                torch.tensor([800.0 if b in branches else -800.0 for b in BRANCHES]).repeat_interleave(N)
            )
    return net


@torch.no_grad()
@both_paths
@pytest.mark.parametrize(
    "position", ["rope", "alibi", pytest.param("none", marks=SLOW), pytest.param("shaw", marks=SLOW)]
)
@pytest.mark.parametrize(
    ("branch", "enough", "short"),
    [("selected", {"n_selected": 4}, {"n_selected": 3}), ("window", {"window": 16}, {"window": 14})],
)
def test_a_branch_alone_that_sees_everything_is_dense_attention(branch, enough, short, position, path):
    dense = shaken(model(attn="gqa", position=position, path=path).double())
    for changed, same in ((enough, True), (short, False)):
        net = gated(made(position=position, path=path, gate_bias=True, **changed), branch)
        state = net.state_dict()
        for name, weight in dense.state_dict().items():
            for part in "kv":
                name = name.replace(f".attn.{part}.", f".attn.{part}_{branch}.")
            assert state[name].shape == weight.shape
            state[name] = weight
        net.load_state_dict(state)
        close = torch.allclose(net.logits(tokens()), dense.logits(tokens()), rtol=1e-9, atol=1e-10)
        assert close == same, changed


@torch.no_grad()
@both_paths
@every_shape
def test_branches_add_up(shape, path):
    net, x_BTD = made(path=path, gate_bias=True, **SHAPES[shape]), stream()
    alone = [gated(net, branch).attention()[0](x_BTD)[0] for branch in BRANCHES]
    together = gated(net, *BRANCHES).attention()[0](x_BTD)[0]
    torch.testing.assert_close(together, sum(alone), rtol=1e-10, atol=1e-11)
    assert not gated(net).attention()[0](x_BTD)[0].any()


@torch.no_grad()
@both_paths
def test_compression_is_zero_until_a_block_is_complete(path):
    net, x_BTD = gated(made(path=path, gate_bias=True, stride=2, block=8), "compressed"), stream()
    y_BTD, _ = net.attention()[0](x_BTD)
    assert not y_BTD[:, :7].any()
    assert y_BTD[:, 7:].any(dim=-1).all()
    short, _ = net.attention()[0](x_BTD[:, :5])
    assert not short.any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "stride", "select_block"), [(32, 16, 64), (4, 2, 4), (6, 2, 2), (3, 3, 9), (2, 1, 5)]
)
def test_a_score_counts_the_pieces_that_blocks_share(block, stride, select_block):
    sizes = Sizes(block=block, stride=stride, select_block=select_block, n_selected=3, window=1)
    n_tokens = 5 * select_block + 1
    n_blocks, n_selectable = sizes.completed(n_tokens), sizes.selectable(n_tokens)
    pieces = [set(range(i, i + block // stride)) for i in range(n_blocks)]
    wide = select_block // stride
    shared = torch.tensor(
        [[len(p & set(range(wide * j, wide * (j + 1)))) for j in range(n_selectable)] for p in pieces]
    )
    weights = torch.rand(2, 3, 4, n_blocks, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = weights @ shared.double()
    torch.testing.assert_close(block_scores(weights, sizes, n_selectable), expected, rtol=1e-12, atol=1e-12)


def test_the_choice_keeps_the_first_and_the_latest_blocks_and_the_best_of_the_rest():
    sizes = Sizes(block=2, stride=2, select_block=2, n_selected=4, window=1)
    score_I = torch.tensor([0.0, 0.3, 0.5, 0.5, 0.1, 0.9, 0.2, 0.8])
    chosen, seen = choose(score_I.expand(1, 1, 16, -1), sizes, range(16))
    found = [sorted(b.tolist()[i] for i in range(4) if s[i]) for b, s in zip(chosen[0, 0], seen[0, 0], strict=True)]
    expected = [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 2, 3, 4], [0, 2, 4, 5], [0, 5, 6, 2], [0, 5, 6, 7]]
    assert found == [sorted(blocks) for blocks in expected for _ in range(2)]


@torch.no_grad()
@both_paths
@every_shape
@pytest.mark.parametrize("position", ["rope", "alibi"])
@pytest.mark.parametrize(
    "lengths",
    [pytest.param([1] * 24, id="single", marks=SLOW), pytest.param([5, 1, 13, 5], id="chunks")],
)
def test_decoding_chooses_and_sees_what_the_whole_forward_does(shape, position, path, lengths):
    module = made(path=path, position=position, **SHAPES[shape]).attention()[0]
    x_BTD, cache, pieces, offset = stream(24), module.new_cache(), [], 0
    for length in lengths:
        pieces.append(module(x_BTD[:, offset : offset + length], cache, offset)[0])
        offset += length
        assert sum(t.nbytes for t in held(cache)) == 2 * module.cache_bytes(offset, element_bytes=8)
    torch.testing.assert_close(torch.cat(pieces, dim=1), module(x_BTD)[0], rtol=1e-10, atol=1e-11)


def test_a_cache_holds_tokens_a_window_blocks_and_the_rest_of_a_block():
    module = made(stride=2, block=4, window=5).attention()[0]
    for n_tokens, rows in ((1, 1 + 1 + 0 + 1), (3, 3 + 3 + 0 + 3), (4, 4 + 4 + 1 + 2), (11, 11 + 5 + 4 + 3)):
        assert module.cache_bytes(n_tokens, element_bytes=2) == 2 * 2 * H * rows * 2


@torch.no_grad()
@both_paths
def test_hooks_of_stability_act_in_all_branches(path, monkeypatch):
    net, x_BTD = made(path=path, scale=0.1), stream()
    module, factor = net.attention()[0], N
    monkeypatch.setattr(module, "scale", 2 * H**-0.5)
    expected = factor * module(x_BTD)[0]
    monkeypatch.setattr(module, "scale", H**-0.5)
    monkeypatch.setattr(module.stability, "qkv", lambda q, k, v: (q, 2 * k, factor * v))
    torch.testing.assert_close(module(x_BTD)[0], expected, rtol=1e-10, atol=1e-11)


def sizes(length=SIZES.max_seq_len, **changed):
    dims = dataclasses.replace(SIZES, max_seq_len=length)
    found = dataclasses.astuple(config("attn", "nsa", **changed).sizes(dims))
    return dict(zip(("block", "stride", "select_block", "n_selected", "window"), found, strict=True))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"length": 16}, (2, 1, 4, 3, 2)),
        ({"length": 128}, (4, 2, 8, 6, 16)),
        ({"length": 256}, (8, 4, 16, 6, 32)),
        ({"length": 256, "stride": 2}, (4, 2, 8, 12, 32)),
        ({"length": 256, "block": 12, "select_block": 8, "n_selected": 9, "window": 7}, (12, 4, 8, 9, 7)),
        ({"length": 256, "stride_share": 1 / 32, "block_strides": 1, "select_strides": 2}, (8, 8, 16, 6, 32)),
        (
            {"length": 8192, "stride_share": 1 / 512, "selected_share": 1 / 8, "window_share": 1 / 16},
            (32, 16, 64, 16, 512),
        ),
    ],
)
def test_sizes_follow_from_the_length_and_each_other(changed, expected):
    assert tuple(sizes(**changed).values()) == expected


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"stride": 0}, "stride 0 must be >= 1"),
        ({"window": 0}, "window 0 must be >= 1"),
        ({"block_strides": 0}, "block_strides 0 must be >= 1"),
        ({"n_selected": 2}, "n_selected 2 must be >= 3"),
        ({"stride_share": 0}, "stride_share 0 must be > 0 and <= 1"),
        ({"selected_share": 1.5}, "selected_share 1.5 must be > 0 and <= 1"),
        ({"block": 5, "stride": 2}, "attn.block 5 must be a multiple of attn.stride 2"),
        ({"select_block": 3, "stride": 2}, "attn.select_block 3 must be a multiple of attn.stride 2"),
    ],
)
def test_values_out_of_range_are_refused(changed, message):
    with pytest.raises(ConfigError) as refused:
        sizes(**changed)
    assert str(refused.value) == message
