"""Masks against their definition, key by key."""

import itertools
import math

import pytest
import torch
from each import for_each

from lab.model.attention_mask import FULL, Chunked, Sliding, attention_mask

DEFINITIONS = {
    lambda window: FULL: lambda i, j, w: j <= i,
    Sliding: lambda i, j, w: i - w < j <= i,
    Chunked: lambda i, j, w: j // w == i // w and j <= i,
}

every_mask = pytest.mark.parametrize("mask", DEFINITIONS, ids=["full", "sliding", "chunked"])


POSITIONS = [(range(9), range(9)), (range(4, 7), range(7)), (range(7, 8), range(3, 8))]


@for_each(itertools.product(DEFINITIONS, [1, 3, 8, 9], POSITIONS))
def test_a_mask_is_what_its_definition_says(mask, window, positions):
    pos_T, pos_S = positions
    found = attention_mask(mask(window), pos_T, pos_S, torch.zeros((), dtype=torch.float64))
    allowed = [[DEFINITIONS[mask](i, j, window) for j in pos_S] for i in pos_T]
    assert found.dtype == torch.float64
    assert found.tolist() == [[0.0 if ok else -math.inf for ok in row] for row in allowed]


@pytest.mark.parametrize("mask", [Sliding, Chunked])
@pytest.mark.parametrize("window", [9, 40])
def test_a_window_as_long_as_the_sequence_hides_nothing(mask, window):
    like = torch.zeros(())
    local, full = (attention_mask(kind, range(9), range(9), like) for kind in (mask(window), FULL))
    assert torch.equal(local, full)


@every_mask
@pytest.mark.parametrize("window", [1, 3, 5])
def test_what_is_kept_is_all_that_a_later_query_sees(mask, window):
    keep = mask(window).keeps
    for now in range(12):
        later = {j for i in range(now + 1, 30) for j in range(now + 1) if DEFINITIONS[mask](i, j, window)}
        assert keep is None or later <= set(range(now + 1 - keep, now + 1))
