"""Memory of a sweep over the number of its workers.

    python scripts/bench/workers.py [--workers 1 2 4 8] [--steps 60] [--json FILE]

A sweep of as many runs as workers trains the default model, one thread each. Memory is proportional set size, in
which a page that k processes share counts for 1/k in each, so that a sum counts every page once; reported is the
largest sum over launcher, fork server and workers. Linux only. More workers than cores need no more memory.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import turns

EVERY_S = 0.2
"""Between two looks at the processes."""


def main() -> None:
    """Train sweep after sweep, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8], metavar="N")
    parser.add_argument("--steps", type=int, default=60, help="of a run (60)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rows = []
    print(f"{'workers':>7}{'all MiB':>10}{'a worker more, MiB':>21}{'largest process, MiB':>23}")
    for workers in options.workers:
        total, largest = peak(workers, options.steps)
        rows.append({"workers": workers, "all_mib": total, "largest_mib": largest})
        more = (total - rows[0]["all_mib"]) / (workers - rows[0]["workers"]) if len(rows) > 1 else None
        said = "-" if more is None else f"{more:.0f}"
        print(f"{workers:7}{total:10,.0f}{said:>21}{largest:23,.0f}", flush=True)
    turns.write(options.json, rows, steps=options.steps)


def peak(workers: int, steps: int) -> tuple[float, float]:
    """The largest sum of proportional set sizes, and the largest resident size of one process, in MiB."""
    seeds = ",".join(map(str, range(1, workers + 1)))
    words = [f"seed={seeds}", f"train.steps={steps}", "threads=1", f"hydra.launcher.n_jobs={workers}"]
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as scratch:
        sweep = subprocess.Popen(
            [sys.executable, "-m", "lab", "train", "-m", *words],
            env={**os.environ, "LAB_OUTPUTS": scratch},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        total = largest = 0.0
        while sweep.poll() is None:
            sizes = [mib(pid) for pid in descendants(sweep.pid)]
            total = max(total, sum(shared for shared, _ in sizes))
            largest = max([largest, *(resident for _, resident in sizes)])
            time.sleep(EVERY_S)
    assert sweep.returncode == 0, f"the sweep of {workers} runs failed"
    return total, largest


def descendants(root: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):  # it has ended
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found = [root]
    for pid in found:  # grows as it is read
        found += children.get(pid, [])
    return found


def mib(pid: int) -> tuple[float, float]:
    """Proportional set size and resident size of a process."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:  # it has ended
        return 0.0, 0.0
    sizes = {name: int(rest.split()[0]) / 1024 for name, rest in (line.split(":", 1) for line in lines)}
    return sizes.get("Pss", 0.0), sizes.get("Rss", 0.0)


if __name__ == "__main__":
    main()
