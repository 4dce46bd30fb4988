"""Scores that depend on the distance between query and key, moved from a column per distance to one per key.

For query i and key j the column of distance i - j starts one further left with each later query. Moving rows is one
padded copy and a view, with a backward pass that is as cheap, where gathering would scatter back.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def distances(pos_T: range, pos_S: range) -> range:
    """Distances from a query back to a key, the largest first; keys after their query are left out."""
    largest, smallest = pos_T[-1] - pos_S[0], pos_T[0] - pos_S[-1]
    return range(largest, max(smallest, 0) - 1, -1)


def by_key(x_TJ: Tensor, n_keys: int) -> Tensor:
    """From a column per distance of ``distances`` to one per key, (…, T, S).

    What stands at a key after its query is finite and means nothing: the mask hides it.
    """
    length, n_columns = x_TJ.shape[-2:]
    x_TJ = F.pad(x_TJ, (1, max(0, n_keys - n_columns)))
    moved = x_TJ.flatten(-2)[..., length:]
    return moved.view(*moved.shape[:-1], length, -1)[..., :n_keys]


def by_distance(x_TS: Tensor, n_columns: int) -> Tensor:
    """The way back, (…, T, J); what stands at a key after its query has to be zero."""
    length, n_keys = x_TS.shape[-2:]
    x_TJ = F.pad(x_TS, (0, n_columns - n_keys))
    moved = F.pad(x_TJ.flatten(-2), (length, 0))
    return moved.view(*moved.shape[:-1], length, -1)[..., 1:]


def as_tensor(steps: range, like: Tensor) -> Tensor:
    """Whole numbers of a range, on the device of ``like``."""
    return torch.arange(steps.start, steps.stop, steps.step, device=like.device)
