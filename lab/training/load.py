"""A finished run as material: its configuration, its model with the newest weights, its tokenizer."""

import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lab.config import After, Device, RunConfig
from lab.data.tokenizer import Tokenizer
from lab.errors import ConfigError, LabError, one_line
from lab.model.transformer import Transformer
from lab.runs.find import find_run as find_run
from lab.runs.leftovers import ENDED
from lab.runs.store import RunFolder
from lab.training.checkpoint import load_newest
from lab.training.resolve import resolve

log = logging.getLogger(__name__)

TRACK = {"layers": False, "layers_every": 20}
"""Keys of ``track`` younger than some finished runs, as in ``conf/track/none.yaml``; no result depends on them."""


@dataclass(frozen=True)
class Loaded:
    """What a run's folder holds."""

    config: RunConfig
    """As the run was trained, with nothing left to decide."""
    model: Transformer
    """With the weights of the newest checkpoint, in evaluation mode."""
    tokenizer: Tokenizer
    step: int
    """Updates that the weights have seen."""
    result: dict[str, Any]
    """As in ``result.json``."""


def load_model(folder: RunFolder, *, device: Device = Device.cpu) -> Loaded:
    """Read a run from its folder; nothing is trained and nothing resolved again.

    A run that has not ended, or that diverged, is loaded with a warning.

    Raises:
        LabError: the folder is not whole, the run has no checkpoint, or this machine has no such device.
    """
    name = folder.path.name
    config, result = read_config(folder), folder.result_now()
    if result is None:
        raise LabError(f"run {name} has no result.json that can be read in {folder.path}")
    place = resolve(replace(config, device=device)).device
    tokenizer = _tokenizer(folder)
    found = load_newest(folder.checkpoints, most_steps=sys.maxsize)
    if found is None:
        raise LabError(_no_weights(folder, config, result))
    tensors, step = found
    model = Transformer(config.architecture(tokenizer.vocab_size))
    weights = {key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise LabError(f"run {name} has weights of another model than this lab makes: {one_line(error)}") from error
    if result["status"] != "done":
        log.warning("run %s is %s: taking it at step %d of %d", name, result["status"], step, config.train.steps)
    return Loaded(config, model.to(place.value).eval(), tokenizer, step, result)


def _no_weights(folder: RunFolder, config: RunConfig, result: dict[str, Any]) -> str:
    name = folder.path.name
    if result["status"] not in ENDED:
        return f"run {name} is {result['status']} and has no checkpoint: lab train with its settings goes on"
    if any(folder.checkpoints.glob("*.safetensors")):
        return f"run {name} has no checkpoint that is whole: train it again with fresh=true"
    why = " (checkpoint.after=none)" if config.checkpoint.after is After.none else ""
    return f"run {name} keeps no weights{why}: train it again with fresh=true checkpoint.after=weights"


def past_config(tree: Any) -> RunConfig:
    """A configuration that a run wrote, of this lab or of an earlier one.

    Raises:
        ConfigError: it is of another lab.
    """
    if isinstance(tree, Mapping) and isinstance(tree.get("track"), Mapping):
        tree = {**tree, "track": TRACK | tree["track"]}
    return RunConfig.decode(tree)


def read_config(folder: RunFolder) -> RunConfig:
    """The configuration of a run, as it was trained.

    Raises:
        LabError: the folder has none that can be read.
    """
    path = folder.path / "config.json"
    try:
        return past_config(json.loads(path.read_text(encoding="utf-8")))
    except ConfigError as error:
        raise LabError(f"{path} is not of this lab: {error}") from error
    except (OSError, ValueError) as error:
        raise LabError(f"run {folder.path.name} has no config.json that can be read in {folder.path}") from error


def _tokenizer(folder: RunFolder) -> Tokenizer:
    path = folder.path / "tokenizer.json"
    try:
        return Tokenizer.load(path)
    except (OSError, ValueError) as error:
        raise LabError(f"{path} cannot be read: {one_line(error)}") from error
