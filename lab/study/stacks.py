"""Which runs of a sweep are trained in one process, as one batched model."""

import math
from collections.abc import Sequence
from itertools import pairwise

from lab.errors import Held
from lab.study.expand import own
from lab.study.worker import Ended


def stacks(graphs: Sequence[str], *, most: int, places: int) -> list[list[int]]:
    """The numbers of the runs of each stack, those of equal graphs together.

    Args:
        graphs: of the runs, equal where they can be stacked.
        most: runs of a stack.
        places: stacks at once; runs are spread over them as evenly as their graphs allow.
    """
    alike: dict[str, list[int]] = {}
    for number, graph in enumerate(graphs):
        alike.setdefault(graph, []).append(number)
    found = []
    for runs in alike.values():
        pieces = max(math.ceil(len(runs) / most), places * len(runs) // len(graphs), 1)
        ends = [len(runs) * piece // pieces for piece in range(pieces + 1)]
        found += [runs[first:last] for first, last in pairwise(ends) if first < last]
    return found


def name(jobs: Sequence[Sequence[str]], runs: Sequence[int]) -> str:
    """What a stack is called: its first run, and how many more."""
    first = " ".join(own(jobs[runs[0]], jobs))
    return first if len(runs) == 1 else f"{first} and {len(runs) - 1} more"


def each(found: Sequence[Sequence[int]], ended: Sequence[Ended]) -> list[Ended]:
    """What came of each run, from what came of each stack: a list of such, or an error that befell all.

    A run that was not started, after a failure, is left for another time.
    """
    came = {run: Ended(error=Held("not started, after a failure")) for runs in found for run in runs}
    for runs, end in zip(found, ended, strict=False):
        came |= dict(zip(runs, [end] * len(runs) if end.error is not None else end.value, strict=True))
    return [came[run] for run in sorted(came)]
