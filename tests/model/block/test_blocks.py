"""Where the norms stand."""

import pytest
import torch
from contracts.menu import SIZES, model, shaken, tokens
from torch import nn

from lab import choices


def test_pre_has_a_final_norm_and_post_has_none():
    assert "final_norm.gain" in dict(model(block="pre").named_parameters())
    assert "final_norm.gain" not in dict(model(block="post").named_parameters())
    assert isinstance(model(block="post").final_norm, nn.Identity)


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


@pytest.mark.parametrize("block", choices.names("block"))
def test_every_layer_has_an_attention_and_a_feed_forward_norm(block):
    names = [name for name, _ in model(block=block).named_parameters() if name.endswith("norm.gain")]
    assert sum(name.startswith("blocks.") for name in names) == 2 * SIZES.n_layers
