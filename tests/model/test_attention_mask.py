"""Masks against their definition, key by key."""

import math

import pytest
import torch

from lab.model.attention_mask import (
    FULL,
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


def of_columns(i, j, w, c):
    """arXiv:1904.10509, 4.2; a query before the first column has itself."""
    return j % w in range(w - c, w) or (i == j and not any(s % w in range(w - c, w) for s in range(i + 1)))


DEFINITIONS = {
    "full": (lambda w: FULL, lambda i, j, w: True),
    "sliding": (Sliding, lambda i, j, w: i - w < j),
    "chunked": (Chunked, lambda i, j, w: j // w == i // w),
    "sliding-and-first": (lambda w: SlidingAndFirst(w, 2), lambda i, j, w: i - w < j or j in (0, 1)),
    "strided": (Strided, lambda i, j, w: (i - j) % w == 0),
    "near-and-strided": (NearAndStrided, lambda i, j, w: i - w <= j or (i - j) % w == 0),
    "columns": (lambda w: Columns(w, 1), lambda i, j, w: of_columns(i, j, w, 1)),
    "all-columns": (lambda w: Columns(w, w), lambda i, j, w: True),
    "chunk-and-columns": (lambda w: ChunkAndColumns(w, 1), lambda i, j, w: j // w == i // w or j % w == w - 1),
}

WINDOWED = ("sliding", "chunked", "sliding-and-first", "chunk-and-columns")
"""Those of which a cache holds as many of the latest as a window has, though a query to come may see fewer."""

every_mask = pytest.mark.parametrize("mask", DEFINITIONS)


def made(mask, window):
    make, defined = DEFINITIONS[mask]
    return make(window), lambda i, j: j <= i and defined(i, j, window)


@every_mask
@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 3, 8, 9])
@pytest.mark.parametrize(
    ("pos_T", "pos_S"), [(range(9), range(9)), (range(4, 7), range(7)), (range(7, 8), range(3, 8))]
)
def test_a_mask_is_what_its_definition_says(mask, window, pos_T, pos_S):
    rule, defined = made(mask, window)
    found = attention_mask(rule, pos_T, pos_S, torch.zeros((), dtype=torch.float64))
    assert found.dtype == torch.float64
    assert found.tolist() == [[0.0 if defined(i, j) else -math.inf for j in pos_S] for i in pos_T]


@every_mask
@pytest.mark.parametrize("window", [1, 2, 5, 20])
def test_no_query_is_left_without_a_key(mask, window):
    seen = attention_mask(made(mask, window)[0], range(17), range(17), torch.zeros(())) == 0
    assert seen.any(dim=1).all()


@pytest.mark.parametrize("mask", [Sliding, Chunked, NearAndStrided, lambda w: SlidingAndFirst(w, 1)])
@pytest.mark.parametrize("window", [9, 40])
def test_a_window_as_long_as_the_sequence_hides_nothing(mask, window):
    like = torch.zeros(())
    local, full = (attention_mask(kind, range(9), range(9), like) for kind in (mask(window), FULL))
    assert torch.equal(local, full)


@every_mask
@pytest.mark.parametrize("window", [1, 3, 5])
def test_what_is_kept_is_all_that_a_later_query_sees(mask, window):
    rule, defined = made(mask, window)
    for now in range(12):
        later = {j for i in range(now + 1, 40) for j in range(now + 1) if defined(i, j)}
        kept = {j for span in rule.keeps(now + 1) for j in span}
        spare = set(range(max(0, now + 1 - window), now + 1)) if mask in WINDOWED else set()
        assert later <= kept <= later | spare
        assert kept <= {j for span in rule.keeps(now) for j in span} | {now}  # nothing comes back


def test_with_gaps_a_cache_is_short():
    assert SlidingAndFirst(5, 2).keeps(100) == (range(2), range(95, 100))
    assert SlidingAndFirst(5, 2).keeps(7) == (range(7),)
    assert Columns(10, 2).keeps(39) == (range(8, 10), range(18, 20), range(28, 30), range(38, 39))
    assert ChunkAndColumns(10, 2).keeps(30) == (range(8, 10), range(18, 30))
    assert Columns(10, 2).keeps(8) == FULL.keeps(0) == ()


def test_half_of_the_heads_have_each_rule():
    rule = HalfOfTheHeads(Sliding(3), Chunked(4), n_heads=6)
    found = attention_mask(rule, range(2, 7), range(7), torch.zeros(()))
    halves = [attention_mask(half, range(2, 7), range(7), torch.zeros(())) for half in (rule.first, rule.second)]
    assert torch.equal(found, torch.stack([halves[0]] * 3 + [halves[1]] * 3))
    assert rule.keeps(9) == (range(5, 9),)
    assert HalfOfTheHeads(Sliding(3), Strided(4), n_heads=6).keeps(9) == (range(9),)
    assert HalfOfTheHeads(Chunked(4), Columns(4, 1), n_heads=6).keeps(14) == (
        range(3, 4),
        range(7, 8),
        range(10, 14),
    )
