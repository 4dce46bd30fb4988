"""A run that starts from another run's weights: ``init_from=RUN``.

The optimizer's state, the step and the order of the data are the new run's own. A tensor that the source lacks, or
has in a shape that no conversion of ``lab.training.transfer`` leads from, is drawn as usual, and said. A source of
which nothing fits is refused, and so is one with another tokenizer: its embeddings belong to other tokens.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.config import Pool, RunConfig
from lab.errors import ConfigError, LabError
from lab.model.transformer import Transformer
from lab.runs.find import find_run
from lab.runs.identity import NO_EFFECT, without
from lab.training.load import Loaded, load_model
from lab.training.transfer import Transfer, grouped, in_words, transfer


@dataclass(frozen=True)
class WarmStart:
    """Another run's weights, matched to a model."""

    run: str
    """The source's id."""
    step: int
    """Updates that its weights have seen."""
    variant: str
    """Twelve hex digits, the same for sources that differ in nothing but their seeds."""
    pool: Pool | None
    """How heads were joined; None where none were."""
    transfer: Transfer

    def identity(self) -> dict[str, Any]:
        """What the source adds to what decides the run's result."""
        return {"run": self.run, "step": self.step, "pool": self.pool}

    def facts(self) -> dict[str, Any]:
        """What ``result.json`` says of it."""
        parts = ("loaded", "converted", "fresh", "dropped")
        return {
            **self.identity(),
            "variant": self.variant,
            **{part: grouped(getattr(self.transfer, part)) for part in parts},
        }

    def lines(self) -> list[str]:
        """What went over, for people."""
        moved = self.transfer
        lines = [f"starts from run {self.run} at step {self.step}", f"  loaded: {in_words(moved.loaded)}"]
        if moved.converted:
            lines.append(f"  converted, heads by {self.pool or 'repetition'}: {in_words(moved.converted)}")
        absent = [name for name in moved.fresh if name not in moved.reshaped]
        lines += [f"  fresh, the source has none: {in_words(absent)}"] if absent else []
        lines += [f"  fresh, of another shape in the source: {in_words(moved.reshaped)}"] if moved.reshaped else []
        lines += [f"  not used: {in_words(moved.dropped)}"] if moved.dropped else []
        return lines


def warm_start(config: RunConfig, outline: Transformer, *, tokenizer_hash: str) -> WarmStart | None:
    """Find the run that ``config.init_from`` names and match its weights; None where it names none.

    Raises:
        LabError: there is no such run, it cannot be loaded, or it does not fit.
    """
    if config.init_from is None:
        return None
    try:
        loaded = load_model(find_run(config.init_from))
    except LabError as error:
        raise ConfigError(f"init_from: {error}") from error
    run = str(loaded.result["id"])
    if loaded.tokenizer.hash != tokenizer_hash:
        raise ConfigError(
            f"init_from '{config.init_from}': run {run} has another tokenizer, {loaded.config.tokenizer.name} of "
            f"{loaded.tokenizer.vocab_size} entries: its embeddings belong to other tokens"
        )
    moved = transfer(loaded.model, outline, config.init_from_pool)
    if not moved.tensors:
        raise ConfigError(
            f"init_from '{config.init_from}': no tensor of run {run} has the name and shape of one here"
        )
    joined = any(moved.tensors[name].numel() < loaded.model.state_dict()[name].numel() for name in moved.converted)
    pool = config.init_from_pool if joined else None
    return WarmStart(run=run, step=loaded.step, variant=_variant(loaded), pool=pool, transfer=moved)


def _variant(loaded: Loaded) -> str:
    """A hash of the source's settings without its seeds, of its data, its step and of its own source's variant."""
    result = loaded.result
    start: Mapping[str, Any] = result.get("init_from") or {}
    parts = {
        "config": without(result["config"], ("seed", "study_seed", "init_from", *NO_EFFECT)),
        "hashes": [result["hashes"]["data"], result["hashes"]["tokenizer"]],
        "step": loaded.step,
        "from": start.get("variant"),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]
