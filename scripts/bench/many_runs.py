"""Make an outputs folder of many finished runs from the result of one, and measure lab table and lab status on it.

python scripts/bench/many_runs.py RESULT.json FOLDER [--count 10000] [--rounds 3] [-o FILE]

The runs are five seeds each of COUNT / 5 learning rates, as one sweep; nothing is trained. A folder that has them
already is measured as it is.
"""

import argparse
import copy
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lab.study.cell import Cell
from lab.study.manifest import Manifest, manifests

SEEDS = 5

COMMANDS = ("table", "table sweep", "status", "status sweep", "status sweep --all")


def make(result: dict[str, Any], outputs: Path, count: int) -> None:
    """Write the runs, and the sweep that asked for them; ``LAB_OUTPUTS`` must name the folder."""
    ids, cells = [], []
    for number in range(count):
        variant, seed = divmod(number, SEEDS)
        made = copy.deepcopy(result)
        made["id"] = f"{number:012x}"
        made["config"]["seed"] = seed
        made["config"]["optim"]["lr"] = 1e-3 * (1 + variant)
        made["final_loss"] += 1e-3 * variant + 1e-4 * (number * 7919 % 101)
        folder = outputs / "runs" / made["id"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").write_text(json.dumps(made))
        ids.append(made["id"])
        cells.append(Cell(f"optim.lr={made['config']['optim']['lr']}", (f"seed={seed}",)))
    asked = Manifest("sweep", "0" * 8, ("--multirun",), None, "2026-01-01T00:00:00+00:00", count)
    asked.with_stage("all", cells, ids).write()


def measured(command: str) -> dict[str, float]:
    """Wall and user seconds, and the most memory in MiB, of one call in a process of its own."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "lab", *command.split()], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"lab {command} ended with {process.returncode}"
    return {
        "wall_s": time.perf_counter() - began,
        "user_s": usage.ru_utime,
        "system_s": usage.ru_stime,
        "peak_mib": usage.ru_maxrss / 1024,
    }


def main() -> None:
    """Make, measure, print medians, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path, help="the result.json of a finished run")
    parser.add_argument("folder", type=Path, help="the outputs folder to make or to measure")
    parser.add_argument("--count", type=int, default=10_000, help="runs (10000)")
    parser.add_argument("--rounds", type=int, default=3, help="calls of each command (3)")
    parser.add_argument("-o", "--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    outputs = options.folder.absolute()
    os.environ["LAB_OUTPUTS"] = str(outputs)
    if not any(one.expected == options.count for one in manifests()):
        make(json.loads(options.result.read_text()), outputs, options.count)
    calls: dict[str, list[dict[str, float]]] = {command: [] for command in COMMANDS}
    for _ in range(options.rounds):
        for command, found in calls.items():
            found.append(measured(command))
    rows = {
        f"lab {command}": {key: statistics.median(call[key] for call in found) for key in found[0]}
        for command, found in calls.items()
    }
    for command, row in rows.items():
        figures = f"{row['wall_s']:6.2f} s wall  {row['user_s']:6.2f} s user  {row['peak_mib']:6.0f} MiB"
        print(f"{command:24}{figures}")
    if options.json:
        about = {"runs": options.count, "rounds": options.rounds, "python": platform.python_version()}
        options.json.write_text(json.dumps({**about, "medians": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
