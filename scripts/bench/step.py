"""Time one training step of lab beside those of other trainers, on the CPU, at equal sizes and threads.

    python scripts/bench/step.py --nanogpt CHECKOUT [--litgpt CHECKOUT] [--trainer] [--threads 1] [--turns 20]

Each contestant lives in a process of its own; they step in turn, and what is printed are medians and the medians
of the ratios turn by turn, theirs over lab's. nanoGPT computes in fp32 on a CPU as it comes, transformers' Trainer
too; litgpt's default is bf16, so it is compared in that where this processor is faster in it, else in fp32, and
it compiles its model. litgpt needs the package lightning beside lab, the Trainer needs accelerate.
"""

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import turns
from contestants import SIZES

WANTED = {
    ("nanogpt", "small", "bf16"): 1.8,
    ("nanogpt", "medium", "bf16"): 2.05,
    ("nanogpt", "small", "fp32"): 1.0,
    ("nanogpt", "medium", "fp32"): 1.0,
    **{(peer, size, "bf16"): 2.0 for peer in ("litgpt", "trainer") for size in ("small", "medium")},
}
"""The ratio, a peer's time over lab's, that the project holds itself to, by lab's precision."""


def main() -> None:
    """Let them step, print, write."""
    options = _parser().parse_args()
    checkouts = {name: path for name in ("nanogpt", "litgpt") if (path := getattr(options, name))}
    peers = [*checkouts, *(["trainer"] if options.trainer else [])]
    if not peers:
        sys.exit("nobody to compare with: give --nanogpt CHECKOUT, --litgpt CHECKOUT or --trainer")
    for path in checkouts.values():
        if not path.is_dir():
            sys.exit(f"{path}: no checkout there")
    facts = turns.machine()
    faster = facts["bf16_is_faster"]
    precisions = options.precisions or (["bf16", "fp32"] if faster else ["fp32"])
    print(f"torch {facts['torch']}, {options.threads} thread(s) each, products faster in bf16: {faster}")
    print(f"{'size':10}{'lab in':>8}{'lab ms':>9}{'peer':>10}{'in':>6}{'ms':>9}{'ratio':>8}{'wanted':>8}")
    rows = []
    for precision in precisions:
        for size in options.sizes:
            for row in duel(peers, checkouts, size, precision, threads=options.threads, count=options.turns):
                rows.append(row)
                wanted = f"{row['wanted']:.2f}" if row["wanted"] else "-"
                print(
                    f"{size:10}{precision:>8}{row['lab_ms']:9.1f}{row['peer']:>10}{row['peer_precision']:>6}"
                    f"{row['peer_ms']:9.1f}{row['ratio']:8.2f}{wanted:>8}",
                    flush=True,
                )
    if not faster:
        print("This processor is not faster in bf16: the aims for bf16 are not for it.")
    turns.write(options.json, rows, threads=options.threads, turns=options.turns)


def duel(
    peers: list[str], checkouts: dict[str, Path], size: str, precision: str, *, threads: int, count: int
) -> list[dict[str, Any]]:
    """One size in one precision of lab's; a row for each peer."""
    theirs = {peer: "bf16" if peer == "litgpt" and precision == "bf16" else "fp32" for peer in peers}
    with turns.started(
        ["lab", *peers], checkouts, SIZES[size], {"lab": precision, **theirs}, threads=threads
    ) as pipes:
        figures = turns.taken(pipes, count)
    seconds = {name: [turn["seconds"] for turn in found] for name, found in figures.items()}
    return [
        {
            "size": size,
            "precision": precision,
            "lab_ms": round(1e3 * statistics.median(seconds["lab"]), 1),
            "peer": peer,
            "peer_precision": theirs[peer],
            "peer_ms": round(1e3 * statistics.median(seconds[peer]), 1),
            "ratio": round(turns.ratio(seconds[peer], seconds["lab"]), 3),
            "wanted": WANTED.get((peer, size, precision)),
        }
        for peer in peers
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nanogpt", type=Path, metavar="CHECKOUT", help="compare with nanoGPT's loop")
    parser.add_argument("--litgpt", type=Path, metavar="CHECKOUT", help="compare with litgpt's loop")
    parser.add_argument("--trainer", action="store_true", help="compare with transformers' Trainer")
    parser.add_argument("--threads", type=int, default=1, help="threads of each process (1)")
    parser.add_argument("--turns", type=int, default=20, help="counted steps of each (20)")
    parser.add_argument("--sizes", nargs="+", default=["small", "medium"], choices=list(SIZES))
    parser.add_argument("--precisions", nargs="+", choices=["bf16", "fp32"], help="of lab (all that are worth it)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


if __name__ == "__main__":
    main()
