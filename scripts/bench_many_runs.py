"""Make an outputs folder of many finished runs from the results of a few, and time lab table and lab status.

``python scripts/bench_many_runs.py RESULT.json FOLDER [COUNT]``: five seeds each of COUNT / 5 learning rates,
as one sweep; nothing is trained.
"""

import copy
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from lab.study.cell import Cell
from lab.study.manifest import Manifest

SEEDS = 5


def make(result: dict, outputs: Path, count: int) -> None:
    """Write the runs, and the sweep that asked for them."""
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
    Manifest("sweep", "0" * 8, ("--multirun",), None, "2026-01-01T00:00:00+00:00", count).with_stage(
        "all", cells, ids
    ).write()


def main() -> None:
    """Make and measure."""
    source, outputs = Path(sys.argv[1]), Path(sys.argv[2]).absolute()
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
    os.environ["LAB_OUTPUTS"] = str(outputs)
    make(json.loads(source.read_text()), outputs, count)
    for words in (["table"], ["table", "--format", "json"], ["table", "sweep"], ["status"], ["status", "sweep"]):
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "lab", *words], stdout=subprocess.DEVNULL, check=False)
        took = time.perf_counter() - began
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"lab {' '.join(words)}: {took:.2f} s, rc {done.returncode}, at most {most:.0f} MiB so far")


if __name__ == "__main__":
    main()
