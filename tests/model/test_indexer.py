"""The indexer's parts: what is chosen, what is said of it, and in which numbers."""

import math

import pytest
import torch
from contracts.menu import SIZES, config, model, shaken

from lab.model.indexer import Index, best, divergence, places
from lab.training.precision import compute_in

D = SIZES.dim

both_choices = pytest.mark.parametrize("attn", ["dsa", "dsa_mla"])


def nearest_of_the_best(row, n_keys):
    """By sorting pairs, the larger score first and then the later position."""
    return sorted(sorted(range(len(row)), key=lambda s: (row[s].item(), s), reverse=True)[:n_keys])


def close(actual, expected, tolerance):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_the_best_are_those_of_a_sort_and_of_equal_ones_the_nearest():
    scores_BTS = torch.randint(-2, 3, (4, 12, 12), generator=torch.Generator().manual_seed(1)).float()
    scores_BTS += torch.full((12, 12), -math.inf).triu(1)
    for n_keys in (1, 3, 12):
        chosen_BTS = best(scores_BTS, n_keys)
        at_BTX, held_BTX = places(chosen_BTS, n_keys)
        for b in range(4):
            for t in range(12):
                expected = nearest_of_the_best(scores_BTS[b, t, : t + 1], n_keys)
                assert chosen_BTS[b, t].nonzero().flatten().tolist() == expected
                assert at_BTX[b, t, held_BTX[b, t]].tolist() == expected
        assert torch.equal(best(scores_BTS[:, :7, :7], min(n_keys, 7)), chosen_BTS[:, :7, :7])


def test_scores_apart_by_a_rounding_are_equal():
    scores_BTS = torch.rand(50, 1, 9, generator=torch.Generator().manual_seed(1)) - 0.5
    scores_BTS[..., 2] = scores_BTS[..., 6]
    noisy_BTS = torch.where(torch.arange(9) == 2, scores_BTS * (1 + 2**-23), scores_BTS)
    for n_keys in range(1, 9):
        assert torch.equal(best(scores_BTS, n_keys), best(noisy_BTS, n_keys))


def test_the_divergence_is_that_of_torch_and_knows_zeros():
    scores = torch.tensor([0.3, -1.0, 2.0, 9.0], dtype=torch.float64, requires_grad=True)
    seen, p = torch.tensor([True, True, True, False]), torch.tensor([0.25, 0.0, 0.75, 0.0], dtype=torch.float64)
    expected = torch.nn.functional.kl_div(scores[:3].log_softmax(0), p[:3], reduction="sum")
    found = divergence(p, scores, seen)
    close(found, expected, 1e-14)
    (gradient,) = torch.autograd.grad(found, scores)
    close(gradient, torch.cat((scores[:3].softmax(0) - p[:3], torch.zeros(1))).detach(), 1e-14)


@torch.no_grad()
@both_choices
def test_index_scores_are_fp32_in_bf16_training(attn):
    net = shaken(model(attn=attn))
    indexer, x_BTD = net.attention()[0].indexer, torch.randn(2, 16, D)
    with compute_in("bf16", "cpu"):
        index = indexer(x_BTD, x_BTD, range(16))
        scores = index.scores(torch.zeros(16, 16))
    assert index.q_BTIH.dtype == torch.bfloat16
    wide = Index(index.q_BTIH.float(), index.w_BTI.float(), index.k_BSH.float())
    assert torch.equal(scores, wide.scores(torch.zeros(16, 16)))


@both_choices
@pytest.mark.parametrize(
    ("position", "turns"), [("rope", True), ("none", False), ("alibi", False), ("shaw", False)]
)
def test_the_indexer_is_rotated_where_positions_rotate(attn, position, turns):
    chosen = config("position", "rope", layout="interleaved", theta=77.0) if turns else position
    module = model(attn=attn, position=chosen).attention()[0]
    rotation = module.indexer.rotation
    assert (rotation is not None) == turns
    if turns:
        assert rotation.pairs == "half"
        assert rotation.width == module.indexer.rope_dim == 4
        close(rotation.frequencies, 77.0 ** -torch.tensor([0, 0.5]), 1e-6)


def test_a_layer_without_positions_has_none_in_its_indexer():
    net = model(attn=config("attn", "dsa", nope_every=2))
    assert [module.indexer.rotation is None for module in net.attention()] == [False, True]
