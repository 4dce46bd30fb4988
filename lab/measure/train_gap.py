"""How much better the model knows what it was trained on.

``train_loss``: nats per token, without dropout and penalties, of 512 of the windows that its steps were taken on,
or all of them, evenly spread over the run, by the trained weights; of one seed they are the same for every variant.
``gap``: the run's final validation loss less that. Windows that were seen more than once, or near the end, are
known better, so the gap of a run over several passes is another thing than that of a run over less than one.
"""

from collections import defaultdict

import numpy as np
import torch
from torch import Tensor

from lab.measure._text import nats, tokens_of
from lab.training.load import Loaded
from lab.training.plan import batches_of

WINDOWS = 512


def measure(loaded: Loaded) -> dict[str, float]:
    """Take it."""
    x_WT, y_WT = seen(loaded)
    loss = float(nats(loaded, x_WT, y_WT).sum() / (y_WT >= 0).sum())
    final = loaded.result.get("final_loss")
    return {"train_loss": loss} | ({} if final is None else {"gap": final - loss})


def seen(loaded: Loaded) -> tuple[Tensor, Tensor]:
    """Inputs and targets of windows that the run was trained on."""
    batches, size = batches_of(loaded.config, tokens_of(loaded)), loaded.config.train.batch_size
    total = loaded.step * size
    rows: dict[int, list[int]] = defaultdict(list)
    for number in np.linspace(0, total - 1, min(WINDOWS, total)).round().astype(int).tolist():
        rows[number // size].append(number % size)
    taken = [[array[kept] for array in batches.at(step)] for step, kept in rows.items()]
    x_WT, y_WT = (np.concatenate(arrays) for arrays in zip(*taken, strict=True))
    return torch.from_numpy(x_WT), torch.from_numpy(y_WT)
