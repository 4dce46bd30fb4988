import pytest
import torch
from contracts.menu import SIZES, config, model, shaken, tokens
from torch import nn

from lab.errors import ConfigError

OFF = {"embed": 0.0, "attention": 0.0, "residual": 0.0}


def dropout(**rates):
    return config("regularization", "dropout", **{**OFF, **rates})


@torch.no_grad()
@pytest.mark.parametrize("place", OFF)
def test_acts_in_training_only(place):
    with_dropout, without = (
        shaken(model(regularization=choice, path="plain")) for choice in (dropout(**{place: 0.5}), "none")
    )
    ids = tokens()
    torch.manual_seed(0)
    assert not torch.allclose(with_dropout.logits(ids), without.logits(ids), rtol=1e-2, atol=1e-2)
    assert torch.equal(with_dropout.eval().logits(ids), without.eval().logits(ids))


@torch.no_grad()
@pytest.mark.parametrize("path", ["plain", "sdpa"])
def test_rates_of_zero_change_nothing(path):
    ids = tokens()
    assert torch.equal(model(regularization=dropout(), path=path).logits(ids), model(path=path).logits(ids))


def test_attention_dropout_forces_the_plain_path():
    assert {a.path for a in model(regularization=dropout(attention=0.1), path="sdpa").attention()} == {"plain"}
    assert {a.path for a in model(regularization=dropout(residual=0.1), path="sdpa").attention()} == {"sdpa"}


@torch.no_grad()
@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_the_share_of_zeros_is_the_rate_and_the_rest_is_scaled_up(rate):
    """Five standard errors of a share among 40,000 draws."""
    part = dropout(embed=rate, attention=rate, residual=rate).build(SIZES)
    ones = torch.ones(4, 100, 100)
    torch.manual_seed(0)
    for dropped in (part.embed(ones), part.residual(None, SIZES)(ones), part.attention(None)(ones)):
        share = (dropped == 0).double().mean().item()
        assert share == pytest.approx(rate, abs=5 * (rate * (1 - rate) / ones.numel()) ** 0.5)
        assert torch.allclose(dropped[dropped != 0], torch.tensor(1 / (1 - rate)))


@torch.no_grad()
def test_acts_once_on_the_embeddings_and_once_on_each_branch():
    net = model(regularization=dropout(attention=0.1, residual=0.2))
    rates = [m.p for m in net.modules() if isinstance(m, nn.Dropout)]
    assert sorted(rates) == [0.1] * SIZES.n_layers + [0.2] * 2 * SIZES.n_layers


@torch.no_grad()
def test_embedding_dropout_comes_after_positions():
    net = model(regularization=dropout(embed=0.5), position="learned")
    seen = []
    net.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    torch.manual_seed(0)
    net(tokens())
    assert 0.4 < (seen[0] == 0).float().mean() < 0.6


@pytest.mark.parametrize("place", OFF)
@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_rates_outside_zero_to_one_are_refused(place, rate):
    with pytest.raises(ConfigError, match=rf"^{place} {rate} must be >= 0 and < 1$"):
        dropout(**{place: rate})
