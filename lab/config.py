"""From composed YAML to frozen dataclasses: the one place where names, types and ranges are checked.

Hydra composes; ``decode`` lists the folder of each group, imports the chosen files, and makes one ``RunConfig``.
From there on no code knows a configuration library.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lab import choices, preset
from lab.component import Component, check, check_number
from lab.data.corpus import CorpusConfig
from lab.data.tokenizer import TokenizerConfig
from lab.decode import section, unknown
from lab.errors import ConfigError
from lab.match import MatchConfig
from lab.model.activation import ActivationConfig
from lab.model.attn import AttnConfig
from lab.model.block import BlockConfig
from lab.model.init import InitConfig
from lab.model.norm import NormConfig
from lab.model.position import PositionConfig
from lab.model.regularization import RegularizationConfig
from lab.model.sizes import ModelConfig
from lab.model.stability import StabilityConfig
from lab.model.transformer import Architecture
from lab.optim import OptimConfig
from lab.schedule import ScheduleConfig
from lab.track import TrackConfig

SWEEP_KEYS = ("study", "tier", "accept_mde", "on_error")
"""Keys of a sweep or a study as a whole, which no run has."""


class Device(StrEnum):
    """Where a run computes."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"
    mps = "mps"


class Precision(StrEnum):
    """The type of matrix products; weights, the residual stream and losses are fp32 in both."""

    auto = "auto"
    fp32 = "fp32"
    bf16 = "bf16"


class AttnPath(StrEnum):
    """How attention is computed: see ``lab.model.attention_path``."""

    auto = "auto"
    plain = "plain"
    sdpa = "sdpa"


class PresetSize(StrEnum):
    """Sizes that come with a preset."""

    published = preset.PUBLISHED


class Pool(StrEnum):
    """What the heads that come to share keys and values become."""

    mean = "mean"
    first = "first"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The ``train`` section."""

    steps: int
    """Updates of the weights."""
    batch_size: int
    """Sequences of one update."""
    micro_batch_size: int | None
    """Sequences computed at once; must divide ``batch_size``. null: all."""
    eval_every: int | None
    """Steps between validations beside the early and the last one; null: none."""
    checkpoint_every: int | None
    """Steps between checkpoints; null: only at the end and on a signal."""

    def __post_init__(self) -> None:
        check_number("steps", self.steps, least=1)
        check_number("batch_size", self.batch_size, least=1)
        for key in ("micro_batch_size", "eval_every", "checkpoint_every"):
            if getattr(self, key) is not None:
                check_number(key, getattr(self, key), least=1)
        micro = self.micro_batch_size
        divides = micro is None or self.batch_size % micro == 0
        check(divides, "micro_batch_size", micro, f"must divide train.batch_size {self.batch_size}")


class After(StrEnum):
    """What a run keeps of its checkpoints when it is done or has diverged."""

    weights = "weights"
    none = "none"
    all = "all"


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """The ``checkpoint`` section."""

    after: After
    """What is kept at the end: the newest ``weights``, ``none``, or ``all``, the optimizer's state too."""


@dataclass(frozen=True, kw_only=True)
class Plain:
    """The settings that stand at the top level."""

    seed: int
    """Seed of weights, batches and noise; runs of one seed are paired."""
    study_seed: int
    """Sets the seeds of one study apart from those of another."""
    device: Device
    """Where to compute; ``auto``: a CUDA GPU, else Apple's, else the CPU."""
    precision: Precision
    """Type of matrix products; ``auto``: bf16 where the device is faster in it, else fp32."""
    threads: int | None
    """CPU threads of one run; null: every core this process may use."""
    attn_path: AttnPath
    """Code that computes attention; ``auto``: by the table of ``lab.model.attention_path``."""
    fresh: bool
    """Whether to start again though the run exists."""
    preset_size: PresetSize | None
    """``published``: the sizes of the preset's smallest published model; null: those of ``model``."""
    preset: str
    """The named architecture that the choices came from; ``none``: they were made one by one."""
    init_from: str | None = None
    """The run to take initial weights from: an id, its beginning, or a path; null: all are drawn."""
    init_from_pool: Pool = Pool.mean
    """Where that run has more key/value heads: their ``mean`` in each group, or the ``first``."""
    compile: bool | None = False
    """Whether the model is compiled; null: by the length of the run, see ``lab.training.compiled``."""

    def __post_init__(self) -> None:
        check_number("seed", self.seed, least=0)
        check_number("study_seed", self.study_seed, least=0)
        if self.threads is not None:
            check_number("threads", self.threads, least=1, most=1024)


@dataclass(frozen=True, kw_only=True)
class RunConfig(Plain):
    """One run, decoded and checked."""

    model: ModelConfig
    norm: NormConfig
    block: BlockConfig
    activation: ActivationConfig
    attn: AttnConfig
    position: PositionConfig
    init: InitConfig
    stability: dict[str, StabilityConfig]
    regularization: dict[str, RegularizationConfig]
    data: CorpusConfig
    tokenizer: TokenizerConfig
    optim: OptimConfig
    schedule: ScheduleConfig
    track: TrackConfig
    match: MatchConfig
    train: TrainConfig
    checkpoint: CheckpointConfig = CheckpointConfig(after=After.weights)

    @staticmethod
    def decode(cfg: Any, given: Iterable[str] = ()) -> "RunConfig":
        """Make a run's configuration of what Hydra composed, or of a ``config.json``.

        ``given`` are the keys that were set by hand: a preset's values yield to them.

        Raises:
            ConfigError: names the key, the value and what is allowed.
        """
        try:
            tree = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.create(cfg)))
            preset.apply(tree, given)
            tree = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.create(tree), resolve=True))
        except OmegaConfBaseException as error:  # an interpolation of something that is not there
            raise ConfigError(f"{error.full_key}: {str(error.msg or error).splitlines()[0]}") from error
        tree = {key: value for key, value in tree.items() if key not in SWEEP_KEYS}
        fields = dataclasses.fields(RunConfig)
        known = {field.name for field in fields}
        for key in tree:
            if key not in known:
                raise ConfigError(unknown("", str(key), known))
        needed = {field.name for field in fields if field.default is dataclasses.MISSING}
        for key in sorted(needed - tree.keys()):
            raise ConfigError(f"{key} is not set")
        plain = {field.name: tree[field.name] for field in dataclasses.fields(Plain) if field.name in tree}
        sections: dict[str, Any] = dataclasses.asdict(section("", Plain, plain))
        sections["model"] = section("model", ModelConfig, tree["model"])
        sections["train"] = section("train", TrainConfig, tree["train"])
        if "checkpoint" in tree:  # runs of earlier versions lack it
            sections["checkpoint"] = section("checkpoint", CheckpointConfig, tree["checkpoint"])
        for group in choices.GROUPS:
            read = _combined if group in choices.COMBINED else _choice
            sections[group] = read(group, tree[group])
        return RunConfig(**sections)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    def architecture(self, tokenizer_size: int) -> Architecture:
        """What decides the model, once the tokenizer is known and ``attn_path`` is no longer ``auto``."""
        assert self.attn_path is not AttnPath.auto, "resolve the configuration first"
        return Architecture(
            dims=self.model.dims(tokenizer_size),
            model=self.model,
            norm=self.norm,
            activation=self.activation,
            attn=self.attn,
            block=self.block,
            position=self.position,
            stability=self.stability,
            regularization=self.regularization,
            init=self.init,
            path="plain" if self.attn_path is AttnPath.plain else "sdpa",
        )


def _choice(group: str, values: Any, *, path: str | None = None) -> Component:
    """One component of a group."""
    path = path or group
    if not isinstance(values, Mapping) or not isinstance(values.get("name"), str):
        raise ConfigError(f"{path} {values!r} is not a choice; use {group}=NAME, one of {_menu(group)}")
    return section(path, cast(type[Component], choices.load(group, values["name"]).Config), values)


def _combined(group: str, values: Any) -> dict[str, Component]:
    """The components of a group whose choices combine, in the order of their names."""
    if not isinstance(values, Mapping) or not values:
        raise ConfigError(f"{group} {values!r} is not a choice; use {group}=[A,B] with names of {_menu(group)}")
    parts = {key: _choice(group, values[key], path=f"{group}.{key}") for key in sorted(values)}
    if "none" in parts and len(parts) > 1:
        others = ", ".join(key for key in parts if key != "none")
        raise ConfigError(f"{group} [none, {others}] is contradictory: 'none' excludes the others")
    return parts


def _menu(group: str) -> str:
    return ", ".join(choices.names(group))
