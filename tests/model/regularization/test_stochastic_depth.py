import dataclasses

import pytest
import torch
from contracts.menu import SIZES, config, model, shaken, tokens

from lab.errors import ConfigError
from lab.model.layer_spec import LayerSpec


def depth(rate):
    return config("regularization", "stochastic_depth", rate=rate)


@torch.no_grad()
@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_whole_sequences_are_dropped_by_the_linear_rule_and_the_rest_scaled_up(layer):
    """Layer l of 4 drops with probability 0.4 l / 4; five standard errors of a share among 20,000 sequences."""
    end = depth(0.4).build(SIZES).residual(LayerSpec(index=layer), dataclasses.replace(SIZES, n_layers=4))
    y_BTD = torch.rand(20_000, 2, 3, generator=torch.Generator().manual_seed(0)) + 0.5
    torch.manual_seed(0)
    out_BTD, rate = end(y_BTD), 0.1 * (layer + 1)
    dropped_B = (out_BTD == 0).flatten(1).any(dim=1)
    assert not out_BTD[dropped_B].any()
    torch.testing.assert_close(out_BTD[~dropped_B], y_BTD[~dropped_B] / (1 - rate), rtol=1e-6, atol=0)
    assert dropped_B.double().mean().item() == pytest.approx(rate, abs=5 * (rate * (1 - rate) / 20_000) ** 0.5)


@torch.no_grad()
def test_acts_in_training_only_and_once_on_each_branch():
    net, plain, ids = shaken(model(regularization=depth(0.9))), shaken(model()), tokens()
    ends = [end for block in net.blocks for end in (block.attn_end, block.ffn_end)]
    assert [module.rate for end in ends for module in end.modules() if hasattr(module, "rate")] == [
        *(2 * [0.45]),
        *(2 * [0.9]),
    ]
    torch.manual_seed(0)
    assert not torch.allclose(net.logits(ids), plain.logits(ids), rtol=1e-2, atol=1e-2)
    assert torch.equal(net.eval().logits(ids), plain.eval().logits(ids))


@torch.no_grad()
def test_the_two_branches_of_a_layer_drop_apart():
    net = model(regularization=depth(0.5))
    block, y_BTD = net.blocks[1], torch.ones(64, 1, 1)
    torch.manual_seed(0)
    assert not torch.equal(block.attn_end(y_BTD), block.ffn_end(y_BTD))


@torch.no_grad()
def test_a_rate_of_zero_changes_nothing():
    ids = tokens()
    assert torch.equal(model(regularization=depth(0.0)).logits(ids), model().logits(ids))


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_what_is_refused(rate):
    with pytest.raises(ConfigError, match=rf"^rate {rate} must be >= 0 and < 1$"):
        depth(rate)
