"""What a model's KV cache takes and how quickly it is filled and read, for ``lab kv`` and ``lab table D``."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from lab.component import check_number
from lab.errors import LabError
from lab.report.comparison import Comparison
from lab.report.variants import Record, config_of

if TYPE_CHECKING:
    from lab.config import RunConfig
    from lab.model.transformer import Architecture


@dataclass(frozen=True)
class Asked:
    """At what sizes finished runs are measured; None: as they were trained, or the usual."""

    batch: int | None
    context: int | None
    prompt: int | None

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            ConfigError: names the option, the value and what is allowed.
        """
        if self.batch is not None:
            check_number("--batch", self.batch, least=1)
        if self.context is not None:
            check_number("--context", self.context, least=2)
        if self.prompt is not None:
            check_number("--prompt", self.prompt, least=1)

    def given(self) -> list[str]:
        """The options that were given."""
        return [f"--{key}" for key, value in asdict(self).items() if value is not None]


def measured(
    config: "RunConfig",
    architecture: "Architecture",
    *,
    batch: int,
    speed: bool = True,
    prompt: int | None = None,
    without: bool = True,
) -> dict[str, Any]:
    """Bytes by the formula and of the tensors, and what takes running the model in its precision.

    Args:
        config: a resolved one.
        architecture: that comes of it.
        batch: sequences at once.
        speed: whether it is run for its speed.
        prompt: tokens before the first that is decoded; None: the usual.
        without: whether decoding without a cache is measured too.
    """
    from lab.training.cache_cost import build, cache_bytes, measure_speed, measured_bytes, mha_bytes, peak_bytes

    dims, precision = architecture.dims, config.precision
    length = dims.max_seq_len
    model = build(config, architecture)
    per_token = cache_bytes(model, length)
    timed: dict[str, Any] = {}
    if speed:
        timed = {
            **asdict(measure_speed(model, length, precision, batch=batch, prompt=prompt, without=without)),
            "peak_mib": peak_bytes(model, length, precision, batch=batch) / 2**20,
            "kernel": f"{'+'.join(sorted({attn.path for attn in model.attention()}))} {precision}",
        }
    held = measured_bytes(model, length, batch=batch)  # the last: it casts the weights
    return {
        "bytes": per_token,
        "share": per_token / mha_bytes(dims),
        "measured_bytes": held,
        "measured_mib": held * batch * length * len(model.attention()) / 2**20,
        **timed,
    }


def measure_variants(made: Comparison, asked: Asked) -> dict[str, Any]:
    """Measure each variant of finished runs with initial weights, on this machine.

    All are measured on the device and with the threads of the baseline's runs, at its context unless another is
    asked for, each in its own precision.

    Returns:
        What is common to them, and ``rows`` in their order: facts, or the reason why there are none.

    Raises:
        ConfigError: the prompt is not shorter than the context.
    """
    from lab.progress import progress
    from lab.training.cache_cost import decoded_steps

    configs = [_config(variant.records) for variant in made.variants]
    known = [config for config in configs if not isinstance(config, str)]
    base = known[0] if known else None
    context = asked.context or (base.model.max_seq_len if base else None)
    batch, prompt = asked.batch or 1, asked.prompt
    if context and prompt is None:
        prompt = context - decoded_steps(context)
    if context and prompt is not None:
        check_number("--prompt", prompt, least=1, most=context - 1)
    rows: list[dict[str, Any]] = []
    with progress("table D: variants measured", len(configs)) as bar:
        for done, (variant, config) in enumerate(zip(made.variants, configs, strict=True), start=1):
            if isinstance(config, str):
                rows.append({"variant": variant.label, "reason": config})
            else:
                assert base is not None
                assert context is not None
                facts = _facts(replace(config, device=base.device, threads=base.threads), batch, context, prompt)
                rows.append({"variant": variant.label, **facts})
            bar.update(done)
    return {
        "batch": batch,
        "context": context,
        "prompt": prompt,
        "device": str(base.device) if base else None,
        "threads": base.threads if base else None,
        "trained_contexts": sorted({config.model.max_seq_len for config in known}),
        "rows": rows,
    }


def _config(records: Sequence[Record]) -> "RunConfig | str":
    """How a variant was trained, for this machine; or why that is not known."""
    from lab.config import Device
    from lab.training.load import past_config
    from lab.training.resolve import is_here, resolve

    tree: Mapping[str, Any] = next((found for record in records if (found := config_of(record))), {})
    if not tree:
        return "no run of it has a configuration" if records else "no run of it has a result"
    try:
        config = past_config(tree)
        return resolve(config if is_here(config.device) else replace(config, device=Device.auto))
    except LabError as error:
        return f"its configuration is not of this lab: {error}"


def _facts(config: "RunConfig", batch: int, context: int, prompt: int | None) -> dict[str, Any]:
    """What is measured of a variant; or why nothing could be."""
    try:
        config = replace(config, model=replace(config.model, max_seq_len=context))
        architecture = config.architecture(getattr(config.tokenizer, "vocab_size", 257))
        architecture.outline()
        found = measured(config, architecture, batch=batch, prompt=prompt, without=False)
    except LabError as error:
        return {"reason": str(error)}
    return {"attention": config.attn.name, "precision": str(config.precision), **found}
