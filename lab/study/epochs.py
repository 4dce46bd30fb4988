"""Studies in which no run may read its corpus more often than so many times."""

from typing import Protocol

from lab.config import RunConfig
from lab.errors import ConfigError


class Windows(Protocol):
    """A corpus as a run reads it."""

    n_windows: int
    """Sequences of ``model.max_seq_len`` in its train split."""


def refuse_epochs(study: str, arm: str, limit: float, config: RunConfig, windows: Windows) -> None:
    """Refuse a run that would read more of its corpus than the study allows.

    Args:
        study: its name.
        arm: whose run it is.
        limit: passes over the corpus.
        config: of the run.
        windows: of its corpus, in its own tokens.

    Raises:
        ConfigError: names the study, the arm, and how many steps would do.
    """
    batch = config.train.batch_size
    epochs = config.train.steps * batch / windows.n_windows
    if epochs <= limit:
        return
    tokens = config.train.steps * batch * config.model.max_seq_len
    there = windows.n_windows * config.model.max_seq_len
    most = int(limit * windows.n_windows / batch)
    raise ConfigError(
        f"study {study}: '{arm}' would read {tokens:,} tokens, {epochs:.3g} times the {there:,} of its corpus's "
        f"train split, and study.max_epochs is {limit:g}: train.steps={most} at most, or a larger corpus"
    )
