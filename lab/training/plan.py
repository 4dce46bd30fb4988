"""From a configuration to a run that can be trained: resolved, matched, its data prepared, everything checked."""

from dataclasses import dataclass, replace

import torch

from lab.config import RunConfig
from lab.data.batches import Batches
from lab.data.tokens import TokenSet, prepare
from lab.match import Match
from lab.model.transformer import Architecture, Transformer
from lab.runs.identity import run_id
from lab.streams import stream_seed
from lab.training.resolve import resolve
from lab.training.warm_start import WarmStart, warm_start


@dataclass(frozen=True)
class Plan:
    """A run that can be trained: everything that could be refused has been."""

    config: RunConfig
    architecture: Architecture
    outline: Transformer
    """The model without storage."""
    tokens: TokenSet
    batches: Batches
    run_id: str
    match: Match | None
    """What the run was made equal to, where that was asked for."""
    start: WarmStart | None
    """The weights of another run that this one starts from, where that was asked for."""

    def id_with(self, seed: int) -> str:
        """The id of the run that differs in its seed alone."""
        return _identity(replace(self.config, seed=seed), self.tokens, self.start)


def plan(config: RunConfig, target: RunConfig | None = None, *, here: bool = True) -> Plan:
    """Resolve the configuration, prepare the data, check that the sizes go together; writes no run folder.

    Args:
        config: of the run.
        target: what it is to be matched to, where ``config.match`` asks for that.
        here: whether it is to be trained on this machine, which then must have its device.

    Raises:
        LabError: something in the configuration or the data is refused.
    """
    assert (target is None) == (config.match.unit is None)
    config = replace(resolve(config, here=here), fresh=False)  # a wish of the caller, not a property of the run
    assert config.threads is not None
    torch.set_num_threads(config.threads)
    tokens = prepare(config.data, config.tokenizer)
    architecture = config.architecture(tokens.vocab_size)
    match = None
    if target is not None:
        other = replace(target, attn_path=config.attn_path).architecture(tokens.vocab_size)
        match = config.match.solve(architecture, other)
        architecture = match.architecture
        config = replace(config, activation=architecture.activation)
    outline = architecture.outline()
    batches = batches_of(config, tokens)
    start = warm_start(config, outline, tokenizer_hash=tokens.tokenizer_hash)
    config = replace(config, init_from=start.run if start else None)  # however the run was named
    identity = _identity(config, tokens, start)
    return Plan(config, architecture, outline, tokens, batches, identity, match, start)


def batches_of(config: RunConfig, tokens: TokenSet) -> Batches:
    """The batches that a run is trained on.

    Raises:
        ConfigError: the text is too short, or windows are for what is planted into them.
    """
    return Batches(
        tokens.train,
        seq_len=config.model.max_seq_len,
        batch_size=config.train.batch_size,
        seed=stream_seed(config.study_seed, config.seed, "data"),
        tokens_hash=tokens.hash,
        ngrams=config.data.ngrams(tokens.vocab_size),
    )


def _identity(config: RunConfig, tokens: TokenSet, start: WarmStart | None) -> str:
    return run_id(
        config.as_dict(),
        data_hash=tokens.data_hash,
        tokenizer_hash=tokens.tokenizer_hash,
        source=start.identity() if start else None,
    )
