import pytest
import torch
from contracts.menu import SIZES, model, shaken, tokens


def test_the_table_has_a_row_for_each_training_position():
    net = model(position="learned")
    assert net.position.table.weight.shape == (SIZES.max_seq_len, SIZES.dim)


@torch.no_grad()
def test_adds_the_row_of_each_position():
    position, x_BTD = model(position="learned").position, torch.zeros(2, 5, SIZES.dim)
    assert torch.equal(position.embed(x_BTD), position.table.weight[:5].expand(2, 5, SIZES.dim))
    assert torch.equal(position.embed(x_BTD, 3), position.table.weight[3:8].expand(2, 5, SIZES.dim))


@torch.no_grad()
def test_there_is_nothing_beyond_the_table():
    net = model(position="learned")
    with pytest.raises(AssertionError, match="learned positions end at 16"):
        net(tokens(1, SIZES.max_seq_len + 1))
    with pytest.raises(AssertionError, match="learned positions end at 16"):
        net(tokens(1, 1), net.new_caches(), SIZES.max_seq_len)


@torch.no_grad()
@pytest.mark.parametrize(("position", "knows"), [("learned", True), ("rope", True), ("none", False)])
def test_only_without_positions_is_the_order_of_the_past_unknown(position, knows):
    """One layer: with two, the causal mask alone tells earlier tokens apart."""
    dims = SIZES.__class__(**{**vars(SIZES), "n_layers": 1})
    net, ids = shaken(model(position=position, dims=dims).double()), tokens(1)
    swapped = ids.clone()
    swapped[:, [2, 5]] = ids[:, [5, 2]]
    assert not torch.equal(ids, swapped)
    difference = (net(ids)[0] - net(swapped)[0])[0, -1].abs().max()
    assert (difference > 1e-3) if knows else (difference < 1e-12)
