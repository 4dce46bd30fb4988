"""What ``init=fixup`` brings, and that the whole starts as the rule says."""

import math

import pytest
import torch
from contracts.menu import SIZES, model, tokens

from lab.compose import compose_config
from lab.model.loss import token_loss


@pytest.mark.parametrize(
    ("words", "norm", "block"),
    [
        (["init=fixup"], "none", "fixup"),
        (["block=pre", "init=fixup", "norm=layernorm"], "layernorm", "pre"),
        pytest.param(["init=fixup", "norm=layernorm"], "layernorm", "fixup", marks=pytest.mark.slow),
        pytest.param(["block=pre", "init=fixup"], "none", "pre", marks=pytest.mark.slow),
        pytest.param(["init=gpt2"], "rmsnorm", "pre", marks=pytest.mark.slow),
    ],
)
def test_it_brings_its_norm_and_block_unless_others_are_said(words, norm, block):
    config = compose_config(words)
    assert (config.norm.name, config.block.name) == (norm, block)


@torch.no_grad()
def test_the_model_starts_as_its_embedding_and_with_the_loss_of_a_uniform_guess():
    net, ids = model(init="fixup", norm="none", block="fixup"), tokens()
    x_BTD, _ = net(ids)
    assert torch.equal(x_BTD, net.embedding(ids))
    loss = token_loss(net, x_BTD, ids, denominator=ids.numel()).objective
    assert loss.item() == pytest.approx(math.log(SIZES.vocab_size), rel=1e-6)
