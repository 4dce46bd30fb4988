"""Peak memory of training beside nanoGPT's, in fp32, above what the imports took.

    python scripts/bench/memory.py --nanogpt CHECKOUT [--sizes wide-vocabulary] [--json FILE]

Each trains some steps in a process of its own; what counts is the largest resident memory of the process less the
resident memory once everything is imported and nothing is built.
"""

import argparse
from pathlib import Path

import turns
from contestants import SIZES

WANTED = {"wide-vocabulary": 0.5}
"""The share of nanoGPT's memory that the project holds itself to."""


def main() -> None:
    """Train both, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nanogpt", type=Path, metavar="CHECKOUT", required=True)
    parser.add_argument("--sizes", nargs="+", default=["wide-vocabulary"], choices=list(SIZES))
    parser.add_argument("--steps", type=int, default=3, help="of each, after three others (3)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rows = []
    print(f"{'size':18}{'nanoGPT MiB':>13}{'lab MiB':>10}{'lab / nanoGPT':>15}{'wanted':>9}")
    for size in options.sizes:
        found = {}
        for name in ("nanogpt", "lab"):
            with turns.started(
                [name], {"nanogpt": options.nanogpt}, SIZES[size], {name: "fp32"}, threads=1
            ) as pipes:
                found[name] = turns.taken(pipes, options.steps)[name][-1]["memory_mib"]
        share = found["lab"] / found["nanogpt"]
        rows.append({"size": size, **{f"{name}_mib": round(mib) for name, mib in found.items()}, "ratio": share})
        wanted = f"≤ {WANTED[size]:.2f}" if size in WANTED else "-"
        print(f"{size:18}{found['nanogpt']:13,.0f}{found['lab']:10,.0f}{share:15.2f}{wanted:>9}", flush=True)
    turns.write(options.json, rows)


if __name__ == "__main__":
    main()
