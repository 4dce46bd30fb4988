"""The text of a run, as windows of tokens; and what its model makes of them."""

from collections.abc import Iterator

import torch
from torch import Tensor

from lab.data.batches import Tokens, eval_windows
from lab.data.tokens import TokenSet, prepare
from lab.errors import LabError
from lab.model.loss import token_nats
from lab.training.evaluate import ROWS
from lab.training.load import Loaded
from lab.training.score import OwnTokenizer

FEW = 16
"""Windows of a measure that looks at every layer."""


def tokens_of(loaded: Loaded) -> TokenSet:
    """The tokens that a run was trained and validated on.

    Raises:
        LabError: the corpus cannot be had or has changed.
    """
    own = OwnTokenizer(name=loaded.config.tokenizer.name, tokenizer=loaded.tokenizer)
    tokens = prepare(loaded.config.data, own)
    check_text(loaded, tokens.data_hash)
    return tokens


def check_text(loaded: Loaded, data_hash: str) -> None:
    """Refuse another text than that of the run.

    Raises:
        LabError: it is another.
    """
    if data_hash != loaded.result["hashes"]["data"]:
        raise LabError(
            f"run {loaded.result['id']} was trained on another text than data={loaded.config.data.name} has now"
        )


def windows(tokens: Tokens, seq_len: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets of windows that do not overlap, as in ``lab.training.evaluate``."""
    x_WT, y_WT = eval_windows(tokens, seq_len)
    return torch.from_numpy(x_WT), torch.from_numpy(y_WT)


def few(tokens: Tokens, seq_len: int, most: int = FEW) -> tuple[Tensor, Tensor]:
    """As ``windows``, but so many at the most: whole ones, evenly spread, unless there is no whole one."""
    x_WT, y_WT = windows(tokens, seq_len)
    whole = max(1, (len(tokens) - 1) // seq_len)
    at = torch.linspace(0, whole - 1, min(most, whole)).round().long()
    return x_WT[at], y_WT[at]


@torch.no_grad()
def nats(loaded: Loaded, x_WT: Tensor, y_WT: Tensor) -> Tensor:
    """Cross-entropy of each target by a run's model, in nats, without any penalty; 0 for targets of -1."""
    found = [
        token_nats(loaded.model, loaded.model(x_BT)[0], y_BT).cpu() for x_BT, y_BT in in_batches(loaded, x_WT, y_WT)
    ]
    return torch.cat(found).double()


def in_batches(loaded: Loaded, x_WT: Tensor, y_WT: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """As many windows at once as hold the tokens of ``ROWS`` of the run's own, on its model's device."""
    rows = max(1, ROWS * loaded.config.model.max_seq_len // x_WT.shape[1])
    device = loaded.model.embedding.weight.device
    for first in range(0, len(x_WT), rows):
        yield x_WT[first : first + rows].to(device), y_WT[first : first + rows].to(device)
