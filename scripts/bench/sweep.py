"""Time a sweep of small runs: lab's pool, the same runs one after another, and a shell loop over nanoGPT's.

    python scripts/bench/sweep.py [--nanogpt CHECKOUT] [--runs 16] [--steps 400] [--json FILE]

All runs have the architecture of GPT-2 at the size of the default model, and differ in their seed. The pool trains
as many at once as there are cores, with one thread each; one after another each has every core, as nanoGPT's have.
Every run of lab validates, saves and writes its metrics; nanoGPT's loss is estimated on as many tokens. The three
take turns, each with a share of the runs, so that what else the machine does falls on all alike.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import turns
from contestants import GPT2, SIZES, sized

SIZE = SIZES["small"]

WANTED = {"one after another": 1.5, "nanoGPT": 2.5}
"""Runs an hour of the pool, as a multiple."""

VALIDATION_TOKENS = 100_000


def lab(words: list[str], steps: int) -> list[str]:
    """The command of a sweep."""
    given = [word for word in sized(SIZE) if not word.startswith("train.steps")]
    own = [*GPT2, *given, f"tokenizer.vocab_size={SIZE.vocab}", f"train.steps={steps}", "precision=auto"]
    return [sys.executable, "-m", "lab", "train", "-m", *own, *words]


def nanogpt(folder: Path, steps: int, seed: int) -> list[str]:
    """The command of one run, in a folder that holds its data."""
    iterations = VALIDATION_TOKENS // (SIZE.batch * SIZE.length) // 2
    values = {
        "dataset": "random",
        "out_dir": str(folder / "out"),
        "device": "cpu",
        "dtype": "float32",
        "compile": False,
        "eval_interval": steps,
        "eval_iters": iterations,
        "log_interval": 1,
        "always_save_checkpoint": True,
        "gradient_accumulation_steps": 1,
        "batch_size": SIZE.batch,
        "block_size": SIZE.length,
        "n_layer": SIZE.layers,
        "n_head": SIZE.heads,
        "n_embd": SIZE.dim,
        "max_iters": steps,
        "lr_decay_iters": steps,
        "learning_rate": 1e-3 * (1 + seed / 1000),
    }
    return [sys.executable, "train.py", *(f"--{key}={value}" for key, value in values.items())]


def data(checkout: Path) -> None:
    """Random tokens where nanoGPT looks for a data set; it takes its vocabulary from meta.pkl."""
    import pickle

    folder = checkout / "data" / "random"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train", "val"):
        np.random.default_rng(0).integers(0, SIZE.vocab, 2_000_000).astype(np.uint16).tofile(folder / f"{name}.bin")
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": SIZE.vocab}))


def seconds_of(command: list[str], **options: Any) -> float:
    """How long a command takes."""
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, **options)
    return time.perf_counter() - began


def main() -> None:
    """Train in turns, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nanogpt", type=Path, metavar="CHECKOUT", help="compare with nanoGPT's train.py")
    parser.add_argument("--runs", type=int, default=16, help="of each (16)")
    parser.add_argument("--rounds", type=int, default=2, help="in how many turns (2)")
    parser.add_argument("--steps", type=int, default=400, help="of a run (400)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    if options.nanogpt:
        data(options.nanogpt)
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as scratch:
        for turn in range(options.rounds):
            rows.append(one_turn(options, turn, {**environment, "LAB_OUTPUTS": scratch}, Path(scratch)))
    runs = options.runs // options.rounds * options.rounds
    print(f"{runs} runs of {options.steps} steps at {SIZE} (dim / layers / heads / T / batch / vocabulary)")
    for name in rows[0]:
        hours = sum(row[name] for row in rows) / 3600
        print(f"{name:20}{runs / hours:8.1f} runs an hour", end="")
        if name in WANTED:
            times = statistics.median(row[name] / row["pool"] for row in rows)
            print(f"   the pool has {times:.2f} times as many (wanted {WANTED[name]:.1f})", end="")
        print()
    turns.write(options.json, rows, runs=runs, steps=options.steps)


def one_turn(
    options: argparse.Namespace, turn: int, environment: dict[str, str], scratch: Path
) -> dict[str, float]:
    """Seconds of each for its share of the runs."""
    each = options.runs // options.rounds
    seeds = range(1 + turn * each, 1 + (turn + 1) * each)
    words = [f"seed={','.join(map(str, seeds))}"]
    found = {
        "pool": seconds_of(lab(words, options.steps), env=environment),
        "one after another": seconds_of(
            lab([*words, "hydra/launcher=basic", f"threads={os.cpu_count()}"], options.steps), env=environment
        ),
    }
    if options.nanogpt:
        found["nanoGPT"] = sum(
            seconds_of(nanogpt(scratch, options.steps, seed), cwd=options.nanogpt, env=environment)
            for seed in seeds
        )
    return found


if __name__ == "__main__":
    main()
