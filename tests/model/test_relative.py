"""From a column per distance to one per key and back, for blocks anywhere, against index arithmetic."""

import pytest
import torch

from lab.model.relative import as_tensor, by_distance, by_key, distances

BLOCKS = {
    "square": (range(5), range(5)),
    "one": (range(1), range(1)),
    "step": (range(7, 8), range(8)),
    "cache": (range(4, 9), range(9)),
    "window": (range(10, 13), range(6, 13)),
    "past": (range(8, 12), range(2, 5)),
    "late keys": (range(2, 5), range(1, 9)),
}
every_block = pytest.mark.parametrize("block", BLOCKS)


@every_block
def test_distances_are_those_that_occur_and_are_not_negative(block):
    pos_T, pos_S = BLOCKS[block]
    occur = {i - j for i in pos_T for j in pos_S if i >= j}
    assert list(distances(pos_T, pos_S)) == sorted(occur, reverse=True)
    assert as_tensor(distances(pos_T, pos_S), torch.empty(0)).tolist() == sorted(occur, reverse=True)


@every_block
def test_each_key_gets_the_column_of_its_distance(block):
    pos_T, pos_S = BLOCKS[block]
    steps = list(distances(pos_T, pos_S))
    x_NTJ = torch.randn(3, len(pos_T), len(steps))
    got = by_key(x_NTJ, len(pos_S))
    assert got.shape == (3, len(pos_T), len(pos_S))
    assert got.isfinite().all()
    for t, i in enumerate(pos_T):
        for s, j in enumerate(pos_S):
            if i >= j:
                assert torch.equal(got[:, t, s], x_NTJ[:, t, steps.index(i - j)])


@every_block
def test_each_distance_gets_the_number_of_its_key(block):
    pos_T, pos_S = BLOCKS[block]
    steps = list(distances(pos_T, pos_S))
    seen_TS = torch.tensor([[i >= j for j in pos_S] for i in pos_T])
    x_NTS = torch.randn(3, len(pos_T), len(pos_S)) * seen_TS
    got = by_distance(x_NTS, len(steps))
    expected = torch.zeros(3, len(pos_T), len(steps))
    for t, i in enumerate(pos_T):
        for s, j in enumerate(pos_S):
            if i >= j:
                expected[:, t, steps.index(i - j)] = x_NTS[:, t, s]
    assert torch.equal(got, expected)
