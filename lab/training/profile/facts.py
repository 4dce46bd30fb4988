"""What was measured of a step, in numbers by name."""

import statistics
from typing import Any

import torch

from lab.config import Device, RunConfig
from lab.model.count import training_flops_per_token
from lab.training.plan import Plan
from lab.training.profile.classes import CLASSES, contracts
from lab.training.profile.measure import Measured
from lab.training.profile.timed import scaled
from lab.training.resolve import processor

PEAK_TFLOPS = {
    **{"B200": 2250, "GH200": 989, "H200": 989, "H100": 989, "A100": 312, "L40S": 362, "L4": 121, "A10": 125},
    **{"RTX 5090": 210, "RTX 4090": 165, "RTX 3090": 71},
}
"""Dense bf16 products with fp32 sums by the name of a GPU, as its maker states it; the first that fits is taken."""


def facts(planned: Plan, found: Measured) -> dict[str, Any]:
    """All numbers of a profile, ready for JSON."""
    config = planned.config
    tokens = config.train.batch_size * config.model.max_seq_len
    step_ms = statistics.median(found.whole_ms)
    by_class, by_operator = scaled(found.seen, step_ms)
    flops = sum(found.counted.flops.values())
    formula = training_flops_per_token(planned.outline, config.model.max_seq_len) * tokens
    contracting = sum(ms for operator, ms in by_operator.items() if contracts(operator.name))
    return {
        **_setting(planned, found),
        "step_ms": step_ms,
        "step_quartiles_ms": _quartiles(found.whole_ms),
        "profiled_step_ms": statistics.median(found.seen.step_ms),
        "tokens_per_s": 1000 * tokens / step_ms,
        "flops": flops,
        "flops_by_formula": formula,
        "contractions_flops_share": found.counted.contractions / flops,
        "contractions_time_share": contracting / step_ms,
        "classes": [
            {
                "name": name,
                "holds": holds,
                "ms": by_class[name],
                "time_share": by_class[name] / step_ms,
                "flops": found.counted.flops[name],
                "flops_share": found.counted.flops[name] / flops,
                "bytes": found.by_class.get(name),
            }
            for name, holds in CLASSES.items()
        ],
        "memory": found.held,
        "floor": _floor(found),
        "compiled": _compiled(found),
        "gpu": _gpu(config, found, formula, step_ms) if config.device is Device.cuda else None,
        "operators": [
            {
                "class": operator.group,
                "operator": operator.name,
                "backward": operator.backward,
                "ms": ms,
                "calls": found.seen.calls[operator] / len(found.seen.step_ms),
            }
            for operator, ms in sorted(by_operator.items(), key=lambda item: -item[1])
        ],
    }


def _floor(found: Measured) -> dict[str, Any]:
    """The products alone; their share is the median of ratios of neighbours, which a busy machine spoils less."""
    ms = statistics.median(found.floor_ms)
    pairs = zip(found.floor_ms, found.whole_ms, strict=True)
    return {
        "ms": ms,
        "quartiles_ms": _quartiles(found.floor_ms),
        "share": statistics.median(alone / whole for alone, whole in pairs),
        "products": len(found.counted.products),
        "flops": found.floor.flops,
        "flops_per_s": 1000 * found.floor.flops / ms,
    }


def _compiled(found: Measured) -> dict[str, Any] | None:
    """Of steps of the compiled model, the floor of the others under them."""
    if found.compiled is None:
        return None
    ms = statistics.median(found.compiled.whole_ms)
    return {
        "step_ms": ms,
        "quartiles_ms": _quartiles(found.compiled.whole_ms),
        "first_step_s": found.compiled.first_s,
        "floor_share": statistics.median(found.floor_ms) / ms,
    }


def _setting(planned: Plan, found: Measured) -> dict[str, Any]:
    """What was measured, and where."""
    config, dims = planned.config, planned.architecture.dims
    cuda = config.device is Device.cuda
    return {
        "machine": torch.cuda.get_device_name() if cuda else processor(),
        "torch": torch.__version__,
        "device": str(config.device),
        "precision": str(config.precision),
        "threads": config.threads,
        "attention_path": found.attention_path,
        "model": {
            "dim": dims.dim,
            "n_layers": dims.n_layers,
            "n_heads": dims.n_heads,
            "max_seq_len": dims.max_seq_len,
            "vocab_size": dims.vocab_size,
        },
        "batch_size": config.train.batch_size,
        "micro_batch_size": config.train.micro_batch_size,
        "tokens": config.train.batch_size * config.model.max_seq_len,
        "steps": len(found.whole_ms),
    }


def _gpu(config: RunConfig, found: Measured, formula: float, step_ms: float) -> dict[str, Any]:
    """What is known of a GPU alone."""
    name = torch.cuda.get_device_name()
    peak = next((value for key, value in PEAK_TFLOPS.items() if key in name), None)
    mfu = None if peak is None or config.precision != "bf16" else formula / (step_ms / 1000) / (peak * 1e12)
    return {
        "mfu": mfu,
        "peak_tflops": peak,
        "bytes_per_s": found.counted.traffic / (step_ms / 1000),
        "kernels": found.seen.kernels / len(found.seen.step_ms),
    }


def _quartiles(values: list[float]) -> list[float]:
    low, _, high = statistics.quantiles(values, method="inclusive")
    return [low, high]
