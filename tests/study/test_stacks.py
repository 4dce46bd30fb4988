"""Which runs of a sweep are trained in one process."""

import pytest

from lab.errors import Held, LabError
from lab.study.stacks import each, name, stacks
from lab.study.worker import Ended


@pytest.mark.parametrize(
    ("graphs", "most", "places", "expected"),
    [
        ("aaaa", 16, 1, [[0, 1, 2, 3]]),
        ("abab", 16, 1, [[0, 2], [1, 3]]),
        ("aaaaa", 2, 1, [[0], [1, 2], [3, 4]]),
        ("aaaaa", 3, 1, [[0, 1], [2, 3, 4]]),
        ("aaaaaa", 16, 2, [[0, 1, 2], [3, 4, 5]]),
        ("aaabbb", 16, 2, [[0, 1, 2], [3, 4, 5]]),
        ("aaabbbccc", 16, 2, [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
        ("a", 16, 8, [[0]]),
        ("abc", 16, 2, [[0], [1], [2]]),
        ("aaaa", 1, 1, [[0], [1], [2], [3]]),
    ],
)
def test_runs_of_a_graph_in_stacks_that_fill_the_places(graphs, most, places, expected):
    assert stacks(graphs, most=most, places=places) == expected


def test_what_a_stack_is_called():
    jobs = [["seed=1", "lr=1", "dim=8"], ["seed=2", "lr=1", "dim=8"], ["seed=2", "lr=2", "dim=8"]]
    assert name(jobs, [0]) == "seed=1 lr=1"
    assert name(jobs, [1, 2, 0]) == "seed=2 lr=1 and 2 more"


def test_what_came_of_each_run():
    first, third, failure = Ended("first"), Ended("third"), Ended(error=LabError("killed"))
    assert each([[0, 2], [1, 3]], [Ended([first, third]), failure]) == [first, failure, third, failure]
    left = each([[0, 2], [1]], [failure])
    assert (left[0], left[2]) == (failure, failure)
    assert isinstance(left[1].error, Held)
