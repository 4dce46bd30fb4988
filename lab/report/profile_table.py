"""The table of ``lab profile``: what each class of work takes of a step, and the floor under it."""

from collections.abc import Mapping
from typing import Any

from lab.report.grid import NONE, Column, Grid

HEADS = (
    Column(header="class", left=True),
    Column(header="ms a\nstep"),
    Column(header="% of\ntime"),
    Column(header="GFLOP\na step"),
    Column(header="% of\nFLOPs"),
    Column(header="held\nMiB"),
)
MEMORY_ROWS = {"weights": "weights", "gradients": "gradients"}
"""Rows of what is held beside the classes, by its key."""

MIB = 2**20
PUBLISHED = "99.8 and 61 in BERT's training, arXiv:2007.00072, table 1"
HELD = (
    "held: for backward, by the class that keeps it; of cross-entropy what it adds at the most, of the optimizer "
    "its state. In the last row the most that all tensors held at once{allocator}"
)


def grid(facts: Mapping[str, Any]) -> Grid:
    """The table of a measurement as ``lab.training.profile.measure`` makes it."""
    rows = [
        [
            one["name"],
            f"{one['ms']:.2f}",
            _percent(one["time_share"]),
            f"{one['flops'] / 1e9:.3f}" if one["flops"] else NONE,
            _percent(one["flops_share"], 2) if one["flops"] else NONE,
            _mib(one["bytes"]),
        ]
        for one in facts["classes"]
    ]
    memory = facts["memory"]
    rows += [[name, *[NONE] * 4, _mib(memory[key])] for key, name in MEMORY_ROWS.items()]
    total = ["whole step", f"{facts['step_ms']:.2f}", "100.0", f"{facts['flops'] / 1e9:.3f}", "100.00"]
    rows.append([*total, _mib(memory["most"])])
    return Grid(title=title(facts), columns=HEADS, rows=rows, notes=_notes(facts), data=facts)


def operators(facts: Mapping[str, Any], most: int) -> Grid:
    """The operators that take most of the time."""
    heads = (
        Column(header="class", left=True),
        Column(header="operator", left=True),
        Column(header="pass", left=True),
        Column(header="calls"),
        Column(header="ms a step"),
        Column(header="% of time"),
    )
    rows = [
        [
            one["class"],
            one["operator"],
            "backward" if one["backward"] else "forward",
            f"{one['calls']:g}",
            f"{one['ms']:.2f}",
            _percent(one["ms"] / facts["step_ms"]),
        ]
        for one in facts["operators"][:most]
    ]
    return Grid(title=title(facts), columns=heads, rows=rows, notes=_notes(facts), data=facts)


def title(facts: Mapping[str, Any]) -> str:
    """What was measured."""
    model = facts["model"]
    return (
        f"A training step: {model['n_layers']} layers, width {model['dim']}, {model['n_heads']} heads, "
        f"{facts['batch_size']} × {model['max_seq_len']} tokens, vocabulary {model['vocab_size']:,}"
    )


def _notes(facts: Mapping[str, Any]) -> list[str]:
    floor, low_high = facts["floor"], facts["step_quartiles_ms"]
    steps = facts["steps"]
    cuda = facts["device"] == "cuda"
    return [
        f"floor: the step's {floor['products']} matrix products alone take {floor['ms']:.2f} ms at "
        f"{floor['flops_per_s'] / 1e9:,.1f} GFLOP/s, {_percent(floor['share'])} % of the step (median of pairs).",
        f"{facts['tokens_per_s']:,.0f} tokens/s, {facts['flops_by_formula'] / facts['step_ms'] / 1e6:,.1f} GFLOP/s "
        f"by the model's formula.",
        f"Tensor contractions, those of attention among them: "
        f"{_percent(facts['contractions_flops_share'], 2)} % of FLOPs, "
        f"{_percent(facts['contractions_time_share'])} % of time ({PUBLISHED}).",
        *_compiled_notes(facts),
        *_gpu_notes(facts["gpu"]),
        f"ms: medians of {steps} steps; whole steps and floor in turn without profiler (half of the steps within "
        f"{low_high[0]:.2f} to {low_high[1]:.2f} ms), classes under one "
        f"({facts['profiled_step_ms']:.2f} ms a step), scaled to sum to the whole step.",
        "FLOPs: products by their shapes, forward and backward; other operators one an element, fused ones some.",
        HELD.format(allocator=", by PyTorch's allocator." if cuda else "."),
        f"{facts['machine']}, {facts['device']} in {facts['precision']}, {_threads(facts['threads'])}, attention "
        f"by {' and '.join(facts['attention_path'])}, torch {facts['torch']}.",
    ]


def _compiled_notes(facts: Mapping[str, Any]) -> list[str]:
    compiled = facts["compiled"]
    if compiled is None:
        return []
    return [
        f"The run is compiled: {compiled['step_ms']:.2f} ms a step, after a first one of "
        f"{compiled['first_step_s']:.1f} s; the floor is {_percent(compiled['floor_share'])} % of it. "
        "All else here is of the step without that."
    ]


def _gpu_notes(gpu: Mapping[str, Any] | None) -> list[str]:
    if gpu is None:
        return []
    mfu = "unknown for this GPU and precision"
    if gpu["mfu"] is not None:
        mfu = f"{_percent(gpu['mfu'])} % of {gpu['peak_tflops']:,} TFLOP/s"
    return [
        f"MFU {mfu}; {gpu['kernels']:,.0f} kernels a step; {gpu['bytes_per_s'] / 1e9:,.0f} GB/s read and written, "
        "by the sizes of operands."
    ]


def _threads(number: int) -> str:
    return f"{number} thread{'' if number == 1 else 's'}"


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}"


def _mib(size: int | None) -> str:
    return NONE if size is None else f"{size / MIB:.1f}"
