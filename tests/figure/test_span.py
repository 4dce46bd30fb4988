"""How far gradients reach, against finite differences and the rule of windows and layers."""

import numpy as np
import pytest
import torch

from lab.errors import LabError
from lab.figure import span
from tests.contracts import menu

TOKENS = np.random.default_rng(4).integers(0, 61, 70).astype(np.uint16)
LENGTH = menu.SIZES.max_seq_len


def looked_at(**chosen) -> span.Span:
    return span._span("", 3, menu.shaken(menu.model(**chosen)), TOKENS, LENGTH)


def test_a_window_ends_at_window_less_one_times_layers() -> None:
    found = looked_at(attn=menu.config("attn", "sliding_window", window=5))
    assert (found.reach, found.window, found.ends) == (menu.SIZES.n_layers * 4, 5, True)
    assert bool(found.squares[: found.reach + 1].all())
    assert not bool(found.squares[found.reach + 1 :].any())
    assert span._label(found) == ": (5 − 1) × 2 layers = 8 tokens"


def test_full_attention_reaches_everything() -> None:
    found = looked_at()
    assert (found.reach, found.window, found.ends) == (LENGTH - 1, None, False)
    assert bool(found.squares.all())
    assert len(found.squares) == 3 * LENGTH // 4 + 1


@pytest.mark.parametrize("name", ["chunked", "longformer", "strided"])
def test_reach_is_that_of_the_masks(name: str) -> None:
    net = menu.model(attn=name)
    seen = menu.reach(net, LENGTH)
    assert span.reach(net, LENGTH) == max(t - s for t in range(LENGTH) for s in range(LENGTH) if seen[t, s])


def test_a_gradient_is_what_the_loss_changes_by() -> None:
    net, ids, t, s = menu.shaken(menu.model()).double().eval(), menu.tokens(1, LENGTH + 1)[0], 13, 6
    given = span.gradients(net, ids, [9, t])[1]
    assert not bool(given[t + 1 :].any())
    direction = torch.randn(menu.SIZES.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def loss(size: float) -> float:
        def moved(_: object, __: object, x_BTD: torch.Tensor) -> torch.Tensor:
            return x_BTD.index_add(1, torch.tensor([s]), size * direction[None, None])

        handle = net.embedding.register_forward_hook(moved)
        with torch.no_grad():
            logits = net.logits(ids[None, :-1])[0, t]
        handle.remove()
        return float(-logits.log_softmax(0)[ids[t + 1]])

    assert float(given[s] @ direction) == pytest.approx((loss(1e-5) - loss(-1e-5)) / 2e-5, rel=1e-6)


def test_a_text_of_less_than_a_sequence_is_refused() -> None:
    with pytest.raises(LabError, match="16 tokens, less than one sequence of 16"):
        span.squares(menu.model(), TOKENS[:16], LENGTH, 1)
