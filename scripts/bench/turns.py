"""Contestants in processes of their own that take turns, so that what else the machine does falls on all alike."""

import json
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import contestants
import torch
from contestants import Size

WARM_UP = 3
"""Turns of each that do not count."""


@contextmanager
def started(
    names: Sequence[str], checkouts: Mapping[str, Path], size: Size, precisions: Mapping[str, str], *, threads: int
) -> Iterator[dict[str, Connection]]:
    """A pipe to a process of each: what is sent is answered by the figures of one step."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    try:
        for name in names:
            pipes[name], theirs = context.Pipe()
            arguments = (theirs, name, checkouts.get(name), size, precisions[name], threads)
            processes.append(context.Process(target=_contestant, args=arguments, daemon=True))
            processes[-1].start()
            theirs.close()  # so that a contestant that ends is heard of
            assert answer(name, pipes[name]) == "ready"
        yield pipes
    finally:
        for process in processes:
            process.kill()
            process.join()


def _contestant(
    pipe: Connection, name: str, checkout: Path | None, size: Size, precision: str, threads: int
) -> None:
    """One step each time it is asked; answers with its seconds and the peak of memory above what imports took."""
    torch.set_num_threads(threads)
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 (some print as they train)
    build = contestants.load(name, checkout)
    imported = resident_mib()
    step = build(size, precision)
    pipe.send("ready")
    while True:
        pipe.recv()
        began = time.perf_counter()
        step()
        seconds = time.perf_counter() - began
        pipe.send({"seconds": seconds, "memory_mib": peak_mib() - imported})


def answer(name: str, pipe: Connection) -> Any:
    """What a contestant says; the end of the comparison where it is no longer there."""
    try:
        return pipe.recv()
    except EOFError:
        sys.exit(f"{name} has ended: its error stands above")


def taken(pipes: Mapping[str, Connection], turns: int) -> dict[str, list[dict[str, float]]]:
    """Figures of each of ``turns`` steps that count, A B A B …"""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in pipes}
    for _ in range(WARM_UP + turns):
        for name, pipe in pipes.items():
            pipe.send("step")
            found[name].append(answer(name, pipe))
    return {name: figures[WARM_UP:] for name, figures in found.items()}


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """The median of the ratios turn by turn."""
    return statistics.median(a / b for a, b in zip(theirs, ours, strict=True))


def resident_mib() -> float:
    """Memory that this process has now; on systems without /proc the largest it had."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20 if file.exists() else peak_mib()


def peak_mib() -> float:
    """The largest memory that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def machine() -> dict[str, Any]:
    """What the figures were measured on and with."""
    from lab.config import Device
    from lab.training.resolve import bf16_is_faster, processor, usable_cores
    from lab.training.summary import commit

    return {
        "commit": commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": processor(),
        "cores": usable_cores(),
        "bf16_is_faster": bf16_is_faster(Device.cpu),
        "load": os.getloadavg()[0],
    }


def write(file: Path | None, rows: Any, **facts: Any) -> None:
    """Write figures with the machine's facts, where a file is asked for."""
    if file is not None:
        file.write_text(json.dumps({**machine(), **facts, "rows": rows}, indent=1) + "\n", encoding="utf-8")
