"""Time one training step of lab against one of nanoGPT's loop, on the CPU, at equal sizes and threads.

    python scripts/bench_step.py PATH_TO_NANOGPT [--threads 1] [--steps 20] [--json FILE]

Each contestant lives in a process of its own with the allocator and settings it would have; the parent lets them
step in turn, A B A B …, and prints medians and the median of the ratios pair by pair. nanoGPT's step is the bare
one of its train.py on a CPU: batch, forward, backward, clip, AdamW. lab's holds everything `lab train` does at a
step: the same, with the gradient norm recorded and the metrics written. Both have nanoGPT's architecture:
LayerNorm, GELU, learned positions, tied head; nanoGPT runs with bias=False, its LayerNorms then have none.
"""

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

SIZES = {
    "small": {"dim": 128, "layers": 4, "heads": 4, "length": 128, "batch": 16, "vocab": 2048},
    "medium": {"dim": 256, "layers": 6, "heads": 4, "length": 256, "batch": 8, "vocab": 4096},
}
WANTED = {("small", "bf16"): 1.3, ("medium", "bf16"): 1.5, ("small", "fp32"): 0.95, ("medium", "fp32"): 0.95}
"""The ratio, nanoGPT's time over lab's, that the project holds itself to."""


def tokens(vocab: int) -> np.ndarray:
    """A million random tokens; speed does not depend on what they say."""
    return np.random.default_rng(0).integers(0, vocab, 1_000_000).astype(np.uint16)


def nanogpt_step(path: Path, size: dict[str, int]) -> Callable[[], None]:
    """The body of nanoGPT's training loop."""
    sys.path.insert(0, str(path))
    from model import GPT, GPTConfig  # type: ignore[import-not-found]

    config = GPTConfig(
        block_size=size["length"],
        vocab_size=size["vocab"],
        n_layer=size["layers"],
        n_head=size["heads"],
        n_embd=size["dim"],
        dropout=0.0,
        bias=False,
    )
    model = GPT(config)
    optimizer = model.configure_optimizers(0.1, 1e-3, (0.9, 0.95), "cpu")
    data, length, batch = tokens(size["vocab"]), size["length"], size["batch"]

    def step() -> None:
        starts = torch.randint(len(data) - length, (batch,))
        x = torch.stack([torch.from_numpy(data[i : i + length].astype(np.int64)) for i in starts])
        y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + length].astype(np.int64)) for i in starts])
        _, loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def lab_step(size: dict[str, int], precision: str) -> Callable[[], None]:
    """The body of lab's training loop, with its records."""
    from lab.compose import compose_config
    from lab.data.batches import Batches
    from lab.runs.metrics import JsonLines
    from lab.track.none import Silent
    from lab.training.loop import train_step
    from lab.training.recorder import Recorder
    from lab.training.resolve import resolve
    from lab.training.state import new_state

    config = resolve(
        compose_config(
            [
                "norm=layernorm",
                "activation=gelu",
                "position=learned",
                "regularization=weight_decay",
                "model.tie_embeddings=true",
                f"model.dim={size['dim']}",
                f"model.n_layers={size['layers']}",
                f"model.n_heads={size['heads']}",
                f"model.max_seq_len={size['length']}",
                f"train.batch_size={size['batch']}",
                "train.steps=100000",
                f"precision={precision}",
                "device=cpu",
            ]
        )
    )
    state = new_state(config, config.architecture(size["vocab"]))
    batches = Batches(
        tokens(size["vocab"]), tokens_hash="", seq_len=size["length"], batch_size=size["batch"], seed=0
    )
    folder = Path(tempfile.mkdtemp())
    recorder = Recorder(
        JsonLines(folder / "metrics.jsonl", keep_steps=0),
        JsonLines(folder / "timing.jsonl", keep_steps=0),
        Silent(),
        steps_at_once=1,
        tokens_per_step=size["batch"] * size["length"],
    )

    def step() -> None:
        recorder.note(state.step, *train_step(config, state, batches))
        recorder.settle()
        recorder.write(None)

    return step


def contestant(pipe: Connection, name: str, path: Path, size: dict[str, int], precision: str, threads: int) -> None:
    """A process that takes one step each time it is asked, and answers with the seconds it took."""
    torch.set_num_threads(threads)
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 (nanoGPT prints its parameter counts)
    step = nanogpt_step(path, size) if name == "nanogpt" else lab_step(size, precision)
    pipe.send("ready")
    while pipe.recv() == "step":
        began = time.perf_counter()
        step()
        pipe.send(time.perf_counter() - began)


def duel(path: Path, size_name: str, precision: str, *, threads: int, steps: int) -> dict[str, Any]:
    """Let the two step in turn; the first three pairs warm up."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    for name in ("nanogpt", "lab"):
        pipes[name], theirs = context.Pipe()
        arguments = (theirs, name, path, SIZES[size_name], precision, threads)
        processes.append(context.Process(target=contestant, args=arguments, daemon=True))
        processes[-1].start()
        assert pipes[name].recv() == "ready"
    seconds: dict[str, list[float]] = {name: [] for name in pipes}
    for _ in range(steps + 3):
        for name, pipe in pipes.items():
            pipe.send("step")
            seconds[name].append(pipe.recv())
    for pipe in pipes.values():
        pipe.send("stop")
    for process in processes:
        process.join()
    theirs_s, ours_s = (seconds[name][3:] for name in ("nanogpt", "lab"))
    ratio = statistics.median(a / b for a, b in zip(theirs_s, ours_s, strict=True))
    return {
        "size": size_name,
        "precision": precision,
        "nanogpt_ms": round(1e3 * statistics.median(theirs_s), 1),
        "lab_ms": round(1e3 * statistics.median(ours_s), 1),
        "ratio": round(ratio, 3),
        "wanted": WANTED[size_name, precision],
    }


def main() -> None:
    """Run the four duels and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nanogpt", type=Path, help="a checkout of nanoGPT")
    parser.add_argument("--threads", type=int, default=1, help="threads of each process (1)")
    parser.add_argument("--steps", type=int, default=20, help="counted steps of each (20)")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--precisions", nargs="+", choices=["bf16", "fp32"], help="of lab (those in hardware)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    if not (arguments.nanogpt / "model.py").is_file():
        sys.exit(f"{arguments.nanogpt}: no model.py there; give the path of a nanoGPT checkout")
    from lab.config import Device
    from lab.training.resolve import has_bf16

    hardware = has_bf16(Device.cpu)
    precisions = arguments.precisions or (["bf16", "fp32"] if hardware else ["fp32"])
    print(f"torch {torch.__version__}, {arguments.threads} thread(s) each, bf16 in hardware: {hardware}")
    print(f"{'size':8}{'precision':>10}{'nanoGPT fp32 ms':>17}{'lab ms':>9}{'ratio':>8}{'wanted':>8}")
    rows = []
    for precision in precisions:
        for size_name in arguments.sizes:
            row = duel(arguments.nanogpt, size_name, precision, threads=arguments.threads, steps=arguments.steps)
            rows.append(row)
            print(
                f"{size_name:8}{precision:>10}{row['nanogpt_ms']:17.1f}{row['lab_ms']:9.1f}"
                f"{row['ratio']:8.2f}{row['wanted']:8.2f}",
                flush=True,
            )
    if not hardware:
        print("This processor has no bf16 products: the bf16 figures cannot be measured here.")
    if arguments.json:
        facts = {"torch": torch.__version__, "processor": platform.processor(), "bf16_hardware": hardware}
        arguments.json.write_text(json.dumps({**facts, "threads": arguments.threads, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
