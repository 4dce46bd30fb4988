"""Where the norms stand."""

import dataclasses

import pytest
import torch
from contracts.menu import SIZES, config, model, shaken, tokens
from torch import nn

from lab import choices
from lab.errors import ConfigError
from lab.model.block.post import PostBlock
from lab.model.block.pre import PreBlock

TWO = ["attn_norm", "ffn_norm"]
FOUR = ["attn_norm", "attn_out_norm", "ffn_norm", "ffn_out_norm"]
NORMS = {
    "pre": TWO,
    "post": TWO,
    "sandwich": FOUR,
    "reordered": ["attn_out_norm", "ffn_out_norm"],
    "peri": FOUR,
    "parallel": ["attn_norm"],
    "parallel_two_norms": TWO,
    "rezero": [],
    "rezero_norm": TWO,
    "deepnorm": TWO,
    "mix_ln": TWO,
    "no_residual": TWO,
    "fixup": TWO,
}

every_block = pytest.mark.parametrize("block", choices.names("block"))


def deep(n_layers):
    return dataclasses.replace(SIZES, n_layers=n_layers)


@every_block
def test_norms_stand_where_they_should(block):
    net = model(block=block)
    assert isinstance(net.final_norm, nn.Identity) == (block in ("post", "deepnorm", "rezero"))
    assert isinstance(net.embed_norm, nn.Identity) == (block != "peri")
    for layer in net.blocks:
        assert sorted(name for name, _ in layer.named_children() if name.endswith("norm")) == NORMS[block]


def stream():
    return torch.randn(2, 5, SIZES.dim, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_pre_adds_the_branch_of_the_normalised_stream():
    block, x = shaken(model(block="pre")).blocks[0], stream()
    y = x + block.attn(block.attn_norm(x))[0]
    torch.testing.assert_close(block(x)[0], y + block.ffn(block.ffn_norm(y)), rtol=0, atol=0)


@torch.no_grad()
def test_post_normalises_after_each_addition():
    block, x = shaken(model(block="post")).blocks[0], stream()
    y = block.attn_norm(x + block.attn(x)[0])
    torch.testing.assert_close(block(x)[0], block.ffn_norm(y + block.ffn(y)), rtol=0, atol=0)


@torch.no_grad()
def test_without_branches_a_pre_block_is_the_identity():
    net = model(block="pre")
    for name, parameter in net.named_parameters():
        if name.endswith(".out.weight"):
            parameter.zero_()
    x_BTD = net.embedding(tokens())
    for block in net.blocks:
        assert torch.equal(block(x_BTD)[0], x_BTD)


@torch.no_grad()
def test_the_stream_has_unit_mean_square_after_a_post_block():
    streams = []
    net = model(block="post")
    for block in net.blocks:
        block.register_forward_hook(lambda _, __, out: streams.append(out[0]))
    net(tokens())
    for x_BTD in streams:
        torch.testing.assert_close(x_BTD.square().mean(-1), torch.ones(2, 16), rtol=1e-4, atol=0)


@torch.no_grad()
@pytest.mark.parametrize("block", ["rezero", "rezero_norm"])
def test_rezero_starts_as_the_identity(block):
    net = model(block=block)
    x_BTD = net.embedding(tokens())
    for layer in net.blocks:
        assert torch.equal(layer(x_BTD)[0], x_BTD)


@torch.no_grad()
def test_the_norm_of_peri_ln_after_the_embedding_feeds_the_first_block():
    net, seen = shaken(model(block="peri")), []
    net.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    net(tokens())
    x_BTD = net.embedding(tokens())
    expected = net.embed_norm.gain * x_BTD / (x_BTD.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(seen[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_layers", [1, 2, 6])
def test_the_alpha_of_deepnorm_follows_the_depth(n_layers):
    alphas = [block.alpha for block in model(block="deepnorm", dims=deep(n_layers)).blocks]
    assert alphas == [pytest.approx((2 * n_layers) ** 0.25, rel=1e-15)] * n_layers


@pytest.mark.parametrize("n_layers", [1, 2, 6])
@pytest.mark.parametrize(
    ("attn", "activation", "small"),
    [
        ("mha", "swiglu", ["attn.v", "attn.out", "ffn.gate", "ffn.up", "ffn.out"]),
        ("gqa", "gelu", ["attn.v", "attn.out", "ffn.up", "ffn.out"]),
        ("mla", "gelu", ["attn.v_up", "attn.out", "ffn.up", "ffn.out"]),
    ],
)
def test_deepnorm_makes_the_weights_that_values_pass_through_smaller_at_the_start(
    n_layers, attn, activation, small
):
    chosen = {"attn": attn, "activation": activation, "position": "learned", "dims": deep(n_layers)}
    net, plain = model(block="deepnorm", **chosen), model(block="post", **chosen).state_dict()
    scaled = {f"blocks.{i}.{name}.weight" for i in range(n_layers) for name in small}
    assert scaled < plain.keys()
    for name, tensor in net.state_dict().items():
        divisor = (8 * n_layers) ** 0.25 if name in scaled else 1.0
        torch.testing.assert_close(tensor * divisor, plain[name], rtol=1e-6 if name in scaled else 0, atol=0)


@pytest.mark.parametrize(
    ("share", "n_layers", "n_post"),
    [
        (0.25, 1, 1),
        (0.25, 2, 1),
        (0.25, 4, 1),
        (0.25, 7, 1),
        (0.25, 8, 2),
        (0.5, 4, 2),
        (0.29, 100, 29),
        (0.7, 10, 7),
        (1, 3, 3),
    ],
)
def test_mix_ln_goes_from_post_to_pre(share, n_layers, n_post):
    block = config("block", "mix_ln", post_share=share)
    dims = dataclasses.replace(deep(n_layers), dim=4, n_heads=1, head_dim=4, vocab_size=5)
    kinds = [type(layer) for layer in model(block=block, dims=dims).blocks]
    assert kinds == [PostBlock] * n_post + [PreBlock] * (n_layers - n_post)


@pytest.mark.parametrize("share", [0, -0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ConfigError) as refused:
        config("block", "mix_ln", post_share=share)
    assert str(refused.value) == f"post_share {share} must be > 0 and <= 1"


@torch.no_grad()
@every_block
def test_a_block_works_in_bf16_with_a_stream_in_fp32(block):
    layer, x_BTD = shaken(model(block=block)).blocks[0], stream()
    with torch.autocast("cpu", torch.bfloat16):
        y_BTD, _ = layer(x_BTD)
    assert y_BTD.dtype == torch.float32
    exact, _ = layer(x_BTD)
    assert (y_BTD - exact).norm() <= 2**-5 * exact.norm()
