"""Time and memory of every kind of attention over the length: forward and backward of one attention branch.

    python scripts/bench/attention.py [--most 16384] [--kinds mha nsa …] [--docs]

Each kind and length has a process of its own, with one sequence in fp32 on one thread. Times are the processor's
own, so that other work on the machine counts little; memory is what the process grew by at its peak. Where the
layers of a kind alternate, figures are the mean of two. Windows and numbers of keys are the same at all lengths,
``SIZES``.
``--docs`` writes the table of docs/attention.md and the picture beside it; that needs matplotlib.
"""

import argparse
import json
import math
import multiprocessing
import re
import resource
import statistics
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lab import choices
from lab.compose import compose_config
from lab.model.attn import Attention
from lab.training.resolve import resolve

DOCS = Path(__file__).parents[2] / "docs"
SIZES = {
    "sliding_window": ["window=256"],
    "chunked": ["window=256"],
    "longformer": ["window=256", "n_global=4"],
    "strided": ["stride=128"],
    "fixed": ["block=128", "columns=8"],
    "nsa": ["stride=16", "block=32", "select_block=64", "n_selected=16", "window=512"],
    "dsa": ["top_k=256"],
    "dsa_mla": ["top_k=256"],
}
"""What stays as it is when sequences grow."""
BATCH, HEADS = 1, 4


def branches(kind: str, length: int, head_dim: int) -> list[Attention]:
    """The attention of one layer, or of two that differ."""
    config = resolve(
        compose_config(
            [
                f"attn={kind}",
                *(f"attn.{setting}" for setting in SIZES.get(kind, ())),
                "position=rope",
                "model.n_layers=2",
                f"model.n_heads={HEADS}",
                f"model.head_dim={head_dim}",
                f"model.dim={HEADS * head_dim}",
                f"model.max_seq_len={length}",
                "device=cpu",
                "precision=fp32",
            ]
        )
    )
    first, second = config.architecture(64).build(study_seed=0, seed=0).attention()
    return [first] if first.layer.mask == second.layer.mask else [first, second]


def step(module: Attention, x_BTD: Tensor) -> float:
    """Seconds of one forward and backward pass."""
    began = time.process_time()
    y_BTD, losses = module(x_BTD, shared={})
    (y_BTD.mean() + sum(losses.values())).backward()
    return time.process_time() - began


def indexer_share(module: Attention, length: int) -> float:
    """Part of the products that choose keys and do not attend to them."""
    choosing = module.indexer.flops(length)
    return choosing / (choosing + min(1.0, module.n_chosen / length) * (module.flops(length) - choosing))


def measure(pipe: Connection, kind: str, length: int, head_dim: int, repeat: int) -> None:
    """A process: medians of the seconds, and the bytes that it grew by."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    modules = branches(kind, length, head_dim)
    x_BTD = torch.randn(BATCH, length, HEADS * head_dim, requires_grad=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = [statistics.median(step(m, x_BTD) for _ in range(repeat)) for m in modules]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    found = {"seconds": statistics.mean(seconds), "mib": grown / 1024}
    if getattr(modules[0], "selects", False) and hasattr(modules[0], "indexer"):
        found["indexer"] = indexer_share(modules[0], length)
    pipe.send(found)


def row(kind: str, length: int, head_dim: int, repeat: int) -> dict[str, Any] | None:
    """What a process of its own finds; None: it died, for want of memory."""
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=measure, args=(theirs, kind, length, head_dim, repeat)
    )
    process.start()
    theirs.close()
    try:
        found = ours.recv()
    except EOFError:
        found = None
    process.join()
    return found and {"kind": kind, "length": length, **found}


def measured(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows; a kind stops where the next length would take more memory or time than is allowed."""
    rows = []
    for kind in arguments.kinds:
        length, last = arguments.least, None
        while length <= arguments.most:
            grows = last is not None and 4 * max(
                last["mib"] / 1024 / arguments.memory, last["seconds"] / arguments.seconds
            )
            last = (
                None if grows and grows > 1 else row(kind, length, arguments.head_dim, 3 if length <= 4096 else 1)
            )
            if last is None:
                print(f"{kind:16}{length:8}  left out")
                break
            rows.append(last)
            share = f"  indexer {last['indexer']:.0%} of the products" if "indexer" in last else ""
            print(f"{kind:16}{length:8}{1e3 * last['seconds']:10.0f} ms{last['mib']:9.0f} MiB{share}", flush=True)
            length *= 2
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Rows of Markdown: milliseconds / MiB, in bold where less time than mha's at the length."""
    lengths = sorted({r["length"] for r in rows})
    found = {(r["kind"], r["length"]): r for r in rows}
    lines = ["| attn | " + " | ".join(f"T = {n:,}" for n in lengths) + " |", "|---|" + "---|" * len(lengths)]
    for kind in dict.fromkeys(r["kind"] for r in rows):
        cells = []
        for length in lengths:
            r, full = found.get((kind, length)), found.get(("mha", length))
            ms = f"{1e3 * r['seconds']:,.0f}" if r else ""
            faster = r and full and r["seconds"] < full["seconds"]
            cells.append((f"**{ms}**" if faster else ms) + f" / {r['mib']:,.0f}" if r else "–")
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    shares = [r for r in rows if "indexer" in r]
    for kind in dict.fromkeys(r["kind"] for r in shares):
        parts = ", ".join(f"{r['indexer']:.0%} at {r['length']:,}" for r in shares if r["kind"] == kind)
        lines.append(f"\nThe indexer's part of the products of {kind}: {parts}.")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Time and memory over the length, both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "lab"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(12, 5.5), sharex=True)
    kinds = list(dict.fromkeys(r["kind"] for r in rows))
    colours = mpl.colormaps["tab20"].colors
    for axis, key, title in zip(
        axes, ("seconds", "mib"), ("seconds, forward and backward", "MiB at the peak"), strict=True
    ):
        for number, kind in enumerate(kinds):
            points = [(r["length"], r[key]) for r in rows if r["kind"] == kind and r[key] > 0]
            style = "--" if number % 2 else "-"
            axis.plot(*zip(*points, strict=True), style, marker="o", ms=3, color=colours[number % 20], label=kind)
        axis.set(xscale="log", yscale="log", xlabel="T", title=title)
        lengths = sorted({r["length"] for r in rows})
        axis.set_xticks(lengths, [str(n) for n in lengths])
        axis.minorticks_off()
        axis.grid(visible=True, alpha=0.3)
    axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", default=list(choices.names("attn")), choices=choices.names("attn"))
    parser.add_argument("--least", type=int, default=512, help="shortest sequence (512)")
    parser.add_argument("--most", type=int, default=16384, help="longest sequence (16384)")
    parser.add_argument("--head-dim", type=int, default=32, help=f"width of each of {HEADS} heads (32)")
    parser.add_argument("--memory", type=float, default=8, help="GiB that a process may take (8)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="seconds that a pass may take")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--from-json", type=Path, help="take the figures from this file instead")
    parser.add_argument("--docs", action="store_true", help="write the table and the picture in docs/")
    arguments = parser.parse_args()
    rows = json.loads(arguments.from_json.read_text()) if arguments.from_json else measured(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    print(table(rows))
    if arguments.docs:
        page = DOCS / "attention.md"
        marked = r"(?<=<!-- table -->\n).*(?=\n<!-- end -->)"
        text = re.sub(marked, lambda _: table(rows), page.read_text(encoding="utf-8"), flags=re.DOTALL)
        page.write_text(text, encoding="utf-8")
        draw(rows, DOCS / "attention_cost.svg")


if __name__ == "__main__":
    main()
