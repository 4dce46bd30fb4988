"""Compare KV caches: bytes per token and layer, speed with the cache and without."""

import json
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab import preset
from lab.commands._parser import Parser
from lab.commands._runs import AnyOf
from lab.component import check_number
from lab.errors import ConfigError, did_you_mean
from lab.report.cache_table import as_markdown, as_text, disagreeing

if TYPE_CHECKING:
    from lab.config import RunConfig
    from lab.model.transformer import Architecture

ATTENTIONS = ("mha", "gqa", "mqa", "mla")
"""Rows where nothing else was asked for."""

TOKENS = 512
"""Length of the context unless ``model.max_seq_len`` is given."""

PIPE_WIDTH = 120


@dataclass(frozen=True)
class Variant:
    """A row before it is measured."""

    preset: str | None
    config: "RunConfig"
    architecture: "Architecture"
    published: dict[str, Any]
    """What the formula gives at the published sizes."""


def main(argv: list[str]) -> int:
    """Run ``lab kv``; the exit status is 1 where a cache is not what its formula says.

    Raises:
        LabError: there is no such preset, or a configuration is refused.
    """
    options = _parser().parse_with_overrides(argv)
    words: list[str] = options.overrides
    check_number("--batch", options.batch, least=1)
    variants = _variants([w for w in words if "=" not in w], [w for w in words if "=" in w])
    facts = _facts(variants, options.batch, options.speed)
    if options.format == "json":
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    elif options.format == "markdown":
        print(as_markdown(facts))
    else:
        terminal = sys.stdout.isatty()
        print(as_text(facts, min(PIPE_WIDTH, shutil.get_terminal_size().columns) if terminal else PIPE_WIDTH))
    return 1 if disagreeing(facts) else 0


def _variants(presets: list[str], overrides: list[str]) -> list[Variant]:
    """The rows, every one of them checked."""
    from lab.hints import spelled
    from lab.preset import given_keys

    overrides = [spelled(word) for word in overrides]
    given = given_keys(overrides)
    if "preset_size" in given:
        raise ConfigError(
            "preset_size is not for lab kv: it gives the formula at a preset's published sizes anyway"
        )
    sizes = [] if "model.max_seq_len" in given else [f"model.max_seq_len={TOKENS}"]
    for name in presets:
        if name not in preset.names():
            known = ", ".join(preset.names())
            raise ConfigError(f"preset '{name}' is not one of {known}{did_you_mean(name, preset.names())}")
    if presets:
        return [_variant([f"preset={name}", *overrides], sizes, name) for name in presets]
    if "attn" not in given:
        return [_variant([f"attn={name}", *overrides], sizes) for name in ATTENTIONS]
    asked = next(word for word in overrides if word.startswith("attn="))
    others = [word for word in overrides if word != asked]
    return [_variant([f"attn={name}", *others], sizes) for name in asked.removeprefix("attn=").split(",")]


def _variant(words: list[str], sizes: list[str], name: str | None = None) -> Variant:
    from lab.training.cache_cost import cache_bytes, mha_bytes

    config, architecture = _architecture([*words, *sizes])
    published = {}
    if name is not None:
        here = ("model=", "model.")  # what is given of sizes is for those that are measured
        free = [word for word in words if not word.startswith(here)]
        _, there = _architecture([*free, "preset_size=published"])
        per_token = cache_bytes(there.outline(), there.dims.max_seq_len)
        published = {
            "published_bytes": per_token,
            "published_share": per_token / mha_bytes(there.dims),
            "published_tokens": there.dims.max_seq_len,
        }
    architecture.outline()
    return Variant(name, config, architecture, published)


def _architecture(words: list[str]) -> "tuple[RunConfig, Architecture]":
    """What the words come to, with the vocabulary that the tokenizer would have."""
    from lab.compose import compose_config
    from lab.training.resolve import resolve

    config = resolve(compose_config(words))
    return config, config.architecture(getattr(config.tokenizer, "vocab_size", 257))


def _facts(variants: list[Variant], batch: int, speed: bool) -> dict[str, Any]:
    """The rows, and what is common to them."""
    from lab.progress import progress
    from lab.training.cache_cost import decoded_steps

    config, dims = variants[0].config, variants[0].architecture.dims
    rows = []
    with progress("kv: attentions measured", len(variants)) as bar:
        for done, variant in enumerate(variants, start=1):
            rows.append(_row(variant, batch, speed))
            bar.update(done)
    return {
        "batch": batch,
        "tokens": dims.max_seq_len,
        "dim": dims.dim,
        "n_layers": dims.n_layers,
        "device": str(config.device),
        "precision": str(config.precision),
        "threads": config.threads,
        "steps": decoded_steps(dims.max_seq_len),
        "rows": rows,
    }


def _row(variant: Variant, batch: int, speed: bool) -> dict[str, Any]:
    from lab.commands._throughput import measured

    dims = variant.architecture.dims
    return {
        **({} if variant.preset is None else {"preset": variant.preset}),
        "attention": variant.config.attn.name,
        "n_heads": dims.n_heads,
        "head_dim": dims.head_dim,
        **variant.published,
        **measured(variant.config, variant.architecture, batch=batch, speed=speed),
    }


def _parser() -> Parser:
    parser = Parser(
        prog="lab kv",
        description=f"{__doc__} Nothing is trained: weights are initial ones. Rows are attn=mha, gqa, mqa and mla, "
        "or those of attn=A,B, or the presets named. Sizes are those of lab train with "
        f"model.max_seq_len={TOKENS} unless it is given; of presets it says as well what the published sizes come "
        "to. What the columns mean stands below the table.",
    )
    parser.add_argument(
        "overrides",
        metavar="PRESET | OVERRIDE",
        nargs="*",
        choices=None if Parser.completing is None else AnyOf(preset.names()),
        help="presets to compare, and overrides as for lab train: gemma3 llama3, attn=gqa,mla, model.dim=512, "
        "model.max_seq_len=2048, precision=bf16, threads=1",
    )
    parser.add_argument(
        "--batch", metavar="N", type=int, default=1, help="sequences at once, each with a cache (default: 1)"
    )
    parser.add_argument("--no-speed", dest="speed", action="store_false", help="measure bytes alone")
    parser.add_argument(
        "--format",
        choices=["text", "markdown", "json"],
        default="text",
        help="a table for people, one for a page of documentation, or JSON (default: text)",
    )
    return parser
