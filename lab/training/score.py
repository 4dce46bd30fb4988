"""Scoring a run that is done: on its own data or others, changed or not, and the loss by position.

Windows do not overlap, as in ``lab.training.evaluate``: a token at position t of its window has t + 1 tokens before
the target, so positions show what context is worth. ``model.max_seq_len`` is the length of the windows alone; what
a model derives from its training length, a window of attention or YaRN's original length, stays as it was trained.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from lab.config import Device, RunConfig
from lab.data.tokenizer import Tokenizer, TokenizerConfig
from lab.data.tokens import TokenSet, prepare
from lab.errors import ConfigError
from lab.model.transformer import Architecture, Transformer
from lab.training.evaluate import ROWS, Evaluation, Evaluator
from lab.training.load import Loaded
from lab.training.resolve import is_here, resolve
from lab.training.transfer import Transfer, in_words, keeps_its_value, transfer


@dataclass(frozen=True, kw_only=True)
class OwnTokenizer(TokenizerConfig):
    """The tokenizer of a run, whatever the data."""

    tokenizer: Tokenizer

    def build(self, texts: object, texts_hash: str) -> Tokenizer:
        """What the run has."""
        return self.tokenizer


@dataclass(frozen=True)
class Bucket:
    """Positions of the windows, counted from 0."""

    first: int
    last: int
    tokens: int
    """Targets scored there."""
    loss: float | None
    """Their mean, in nats; None where there is none."""


@dataclass(frozen=True)
class Score:
    """What came of scoring a run."""

    config: RunConfig
    """With what it was scored."""
    tokens: TokenSet
    evaluation: Evaluation
    n_tokens: int
    """Targets scored."""
    standard_error: float | None
    """Of the loss, by documents, in nats; None with fewer than two documents."""
    positions: list[Bucket]
    transfer: Transfer
    """How the run's weights went into the model that was scored."""
    own_loss: float | None
    """The run's final loss, where the data are the same."""


def score(loaded: Loaded, config: RunConfig, *, n_buckets: int) -> Score:
    """Score a run's weights in the model that ``config`` makes: the run's own, or one with changes.

    Raises:
        LabError: the data cannot be had, or the weights do not make that model.
    """
    config = resolve(config if is_here(config.device) else replace(config, device=Device.auto))
    assert config.threads is not None
    torch.set_num_threads(config.threads)
    seq_len, trained = config.model.max_seq_len, loaded.config.model.max_seq_len
    if n_buckets > seq_len:
        raise ConfigError(f"--positions {n_buckets} must be at most model.max_seq_len {seq_len}")
    own = OwnTokenizer(name=loaded.config.tokenizer.name, tokenizer=loaded.tokenizer)
    tokens = prepare(config.data, own)
    as_trained = replace(config, model=replace(config.model, max_seq_len=trained))
    model, moved = _model(loaded, as_trained.architecture(tokens.vocab_size), config)
    longest = model.position.longest
    if longest is not None and longest < seq_len:
        raise ConfigError(f"model.max_seq_len {seq_len}: position={config.position.name} ends at {longest}")
    evaluator = Evaluator(
        tokens.val,
        n_bytes=tokens.bytes["val"],
        seq_len=seq_len,
        device=config.device,
        precision=config.precision,
        rows=ROWS if seq_len <= trained else max(1, ROWS * trained // seq_len),
    )
    evaluation, nats_WT = evaluator.by_token(model.to(config.device.value))
    same = tokens.data_hash == loaded.result["hashes"]["data"]
    return Score(
        config=config,
        tokens=tokens,
        evaluation=evaluation,
        n_tokens=evaluator.n_tokens,
        standard_error=by_document(nats_WT, evaluator.x_WT, evaluator.y_WT, eot=tokens.eot),
        positions=by_position(nats_WT, evaluator.y_WT, n_buckets),
        transfer=moved,
        own_loss=loaded.result["final_loss"] if same else None,
    )


def _model(loaded: Loaded, architecture: Architecture, config: RunConfig) -> tuple[Transformer, Transfer]:
    """The model with the run's weights.

    Raises:
        ConfigError: the sizes do not go together, or the run lacks a weight.
    """
    model = Transformer(architecture)
    moved = transfer(loaded.model, model, config.init_from_pool)
    lacking = [name for name in moved.fresh if name in moved.reshaped or not keeps_its_value(name)]
    if lacking:
        shown, more = in_words(lacking).split(", "), ""
        if len(shown) > 3:
            shown, more = shown[:3], f" and {len(shown) - 3} more"
        raise ConfigError(
            f"run {loaded.result['id']} has no weights for {', '.join(shown)}{more}: "
            "only what needs none can be changed; init_from trains the rest"
        )
    moved.apply(model)
    return model, moved


def by_position(nats_WT: Tensor, y_WT: Tensor, n_buckets: int) -> list[Bucket]:
    """Mean loss in ranges of positions as equal as can be; their sums are the whole loss."""
    length = y_WT.shape[1]
    nats_T, count_T = nats_WT.double().sum(dim=0), (y_WT >= 0).sum(dim=0)
    edges = [round(i * length / n_buckets) for i in range(n_buckets + 1)]
    found = []
    for first, end in pairwise(edges):
        count = int(count_T[first:end].sum())
        loss = float(nats_T[first:end].sum()) / count if count else None
        found.append(Bucket(first, end - 1, count, loss))
    return found


def by_document(nats_WT: Tensor, x_WT: Tensor, y_WT: Tensor, *, eot: int) -> float | None:
    """Standard error of the mean loss of a token, documents being drawn and not tokens.

    The mean is a ratio of sums over documents; its error is that of the residuals s - mean n of each document's sum
    s and count n: Cochran, Sampling Techniques, chapter 6, without the correction for a finite population.
    """
    counted = (y_WT >= 0).flatten().numpy()
    document = np.cumsum(x_WT.flatten().numpy()[counted] == eot)
    document -= document[0]
    nats = np.bincount(document, weights=nats_WT.double().flatten().numpy()[counted])
    n = np.bincount(document)
    if len(n) < 2:
        return None
    rest = nats - nats.sum() / n.sum() * n
    return math.sqrt(len(n) / (len(n) - 1) * float(rest @ rest)) / float(n.sum())
