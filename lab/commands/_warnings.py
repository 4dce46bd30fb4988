"""What is wrong or doubtful on a machine, each with what to do about it."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

GIB = 2**30
LEAST_FREE = 64 << 20
"""Bytes of disk without which not even a small run can be kept."""

SHORT_DISK, SHORT_MEMORY, MUCH_SWAP = 5 * GIB, 2 * GIB, GIB // 4

THREAD_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS")
PINNING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


@dataclass(frozen=True)
class Warned:
    """One thing."""

    what: str
    do: str
    fails: bool = False
    """Whether ``lab train`` would fail for it."""


def warnings(facts: Mapping[str, Any], oldest_torch: str | None) -> list[Warned]:
    """All there is to say of ``lab doctor``'s facts."""
    return [*_disk(facts), *_torch(facts, oldest_torch), *_cores(facts), *_memory(facts), *_environment()]


def _disk(facts: Mapping[str, Any]) -> Iterator[Warned]:
    for name, variable in (("outputs", "LAB_OUTPUTS"), ("cache", "LAB_CACHE")):
        place = facts["disk"][name]
        if place["reason"] is not None:
            yield Warned(
                f"nothing can be written to {place['folder']} ({place['reason']})",
                f"set {variable} to a folder that can be written to",
                fails=True,
            )
        elif place["free"] < LEAST_FREE:
            yield Warned(
                f"{place['folder']} has {place['free'] / 2**20:.0f} MiB left",
                f"make room, or set {variable} to another disk",
                fails=True,
            )
        elif place["free"] < SHORT_DISK:
            yield Warned(
                f"{place['folder']} has {place['free'] / GIB:.1f} GiB left",
                f"lab gc thins out old checkpoints; {variable} names another disk",
            )


def _torch(facts: Mapping[str, Any], oldest: str | None) -> Iterator[Warned]:
    version = facts["torch"]["version"]
    if oldest is not None and _numbers(version) < _numbers(oldest):
        yield Warned(f"torch {version} is older than {oldest}", f"pip install 'torch>={oldest}'", fails=True)
    if not facts["torch"]["mkldnn"] and not facts["gpus"]:
        yield Warned("this torch has no oneDNN, so bf16 is slow and products may be", "install torch from PyPI")
    for package in facts["missing"]:
        yield Warned(f"the package {package} is not installed", f"pip install {package}", fails=True)
    if facts["chosen"]["error"] is not None:
        yield Warned(facts["chosen"]["error"], "mend the configuration", fails=True)


def _cores(facts: Mapping[str, Any]) -> Iterator[Warned]:
    found = facts["processor"]
    usable, quota, load = found["usable_cores"], found["quota"], found["load"]
    if quota is not None and quota < usable:
        whole = max(1, int(quota))
        yield Warned(
            f"the control group gives {quota:.1f} cores' worth of time, and {usable} cores are counted",
            f"threads={whole} for a run, hydra.launcher.n_jobs={whole} for a sweep",
        )
    logical = found["logical_cores"]
    if logical and usable < logical / 2:
        yield Warned(f"{usable} of {logical} cores may be used", "look at taskset or the job's request of cores")
    elif usable == 1:
        yield Warned("one core", "a run takes about twice as long as on two; ask for more where that can be")
    if load is not None and load > 0.5 * usable:
        yield Warned(
            f"the machine is busy (load {load:.1f} on {usable} cores)", "speeds above are lower than they can be"
        )


def _memory(facts: Mapping[str, Any]) -> Iterator[Warned]:
    memory = facts["memory"]
    here = [size for size in (memory["available"], memory["limit"]) if size is not None]
    if here and min(here) < SHORT_MEMORY:
        yield Warned(
            f"{min(here) / GIB:.1f} GiB of memory left",
            "train.micro_batch_size makes a step smaller, equal in value",
        )
    if memory["swapped"] is not None and memory["swapped"] > MUCH_SWAP:
        yield Warned(
            f"{memory['swapped'] / GIB:.1f} GiB are swapped out",
            "steps that touch them are many times slower: end what needs the memory",
        )


def _environment() -> Iterator[Warned]:
    for name in THREAD_COUNTS:
        if value := os.environ.get(name):
            yield Warned(f"{name}={value} is set, which lab does not go by", f"threads={value} asks for as many")
    for name in PINNING:
        if value := os.environ.get(name):
            yield Warned(
                f"{name}={value} is set, which may put all runs of a sweep on the same cores", f"unset {name}"
            )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:2])
