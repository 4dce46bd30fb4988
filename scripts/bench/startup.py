"""Time from the shell's prompt to the answer, of commands that only say something.

python scripts/bench/startup.py [--rounds 7] [--json FILE]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import turns

WANTED = {"lab --help": 0.15, "lab --version": 0.15, "lab train --help": 1.2}
"""Seconds at most; the project holds itself to those of the two helps."""


def main() -> None:
    """Call each in turn, print medians, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="calls of each (7)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {command: [] for command in WANTED}
    with tempfile.TemporaryDirectory() as outputs:
        for _ in range(options.rounds + 1):
            for command, found in seconds.items():
                found.append(called_s(command, outputs))
    rows = {command: statistics.median(found[1:]) for command, found in seconds.items()}
    for command, median in rows.items():
        print(f"{command:20}{median:8.3f} s   wanted {WANTED[command]:.2f}")
    turns.write(options.json, rows)


def called_s(command: str, outputs: str) -> float:
    """Seconds of one call."""
    argv = [sys.executable, "-m", *command.split()]
    began = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True, env={**os.environ, "LAB_OUTPUTS": outputs})
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
