"""What this machine is: processor, memory, limits, GPUs, PyTorch; and how fast it is, in about two seconds."""

import math
import os
import platform
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from lab.training.resolve import processor, usable_cores

PRODUCTS = (256, 1024)
"""Rows and columns of the square matrices that are multiplied."""

PRODUCT_S = 0.3
"""Seconds that one kind of product is repeated for; the slowest takes one call longer."""

COPIED = 64 << 20
"""Bytes of a copy, more than most caches hold."""

WRITTEN = 32 << 20
"""Bytes of the file that is written and synced."""

INSTRUCTIONS = {
    **{"avx2": "AVX2", "fma3": "FMA", "avx512_f": "AVX-512", "avx512_vnni": "AVX-512 VNNI"},
    **{"avx512_bf16": "AVX-512 bf16", "amx_tile": "AMX", "amx_bf16": "AMX bf16", "amx_int8": "AMX int8"},
    **{"sve": "SVE", "sve2": "SVE2", "bf16": "bf16", "sme": "SME"},
}
"""PyTorch's names of instruction sets that matter to matrix products, and what people call them."""


def machine() -> dict[str, Any]:
    """What there is."""
    return {
        "processor": _processor(),
        "memory": memory(),
        "gpus": [_gpu(number) for number in range(torch.cuda.device_count())],
        "torch": {
            "version": torch.__version__,
            "python": platform.python_version(),
            "blas": _blas(),
            "mkldnn": bool(torch.backends.mkldnn.is_available()),  # type: ignore[no-untyped-call]
            "cuda": torch.version.cuda,
        },
    }


def _processor() -> dict[str, Any]:
    told = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}  # since 2.10
    return {
        "name": processor(),
        "cores": told.get("num_physical_cores"),
        "logical_cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "quota": cpu_quota(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "instructions": [name for key, name in INSTRUCTIONS.items() if told.get(key)],
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def _gpu(number: int) -> dict[str, Any]:
    told = torch.cuda.get_device_properties(number)
    return {"name": told.name, "bytes": told.total_memory, "bf16": torch.cuda.is_bf16_supported()}


def _blas() -> str:
    found = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    return found[1] if found else "unknown"


def memory() -> dict[str, int | None]:
    """Bytes of memory: all, what is free to be used, the limit of this process's group, swap in use."""
    told: dict[str, int] = {}
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            key, _, value = line.partition(":")
            told[key] = int(value.split()[0]) * 1024
    if not told and hasattr(os, "sysconf"):  # macOS
        told["MemTotal"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    swapped = told["SwapTotal"] - told["SwapFree"] if "SwapFree" in told else None
    return {
        "total": told.get("MemTotal"),
        "available": told.get("MemAvailable"),
        "limit": memory_limit(),
        "swapped": swapped,
    }


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Cores' worth of time that control groups give this process; None where nothing limits it."""
    found = []
    for folder in _groups(root, "cpu"):
        with suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text().split()
            found.append(int(quota) / int(period))
        with suppress(OSError, ValueError):
            quota_us = int((folder / "cpu.cfs_quota_us").read_text())
            if quota_us > 0:
                found.append(quota_us / int((folder / "cpu.cfs_period_us").read_text()))
    return min(found, default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Bytes that control groups give this process; None where nothing limits it."""
    found = []
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):
                found.append(int((folder / name).read_text()))
    return min((limit for limit in found if limit < 1 << 60), default=None)  # version 1 has no word for no limit


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's control groups, and of those that they are in."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / (controllers and controller)
        folder = base / path.lstrip("/")
        yield folder
        for above in folder.parents:
            if above == base or base in above.parents:
                yield above


def speed(device: str, threads: int) -> dict[str, Any]:
    """Matrix products a second by precision and size, and bytes a second of a copy.

    A product is null that would take too long, going by the smaller one.
    """
    torch.set_num_threads(threads)
    found: list[dict[str, Any]] = []
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        pace = math.inf
        for size in PRODUCTS:
            work = 2 * size**3
            slow = work / pace > 2 * PRODUCT_S
            pace = pace if slow else work / _product_s(size, dtype, device)
            found.append({"precision": name, "size": size, "flops_per_s": None if slow else pace})
    return {"device": device, "threads": threads, "products": found, "bytes_per_s": 2 * COPIED / _copy_s(device)}


@torch.no_grad()
def _product_s(size: int, dtype: torch.dtype, device: str) -> float:
    a, b, out = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(3))
    return _seconds(lambda: torch.mm(a, b, out=out), PRODUCT_S, device)


def _copy_s(device: str) -> float:
    source = torch.ones(COPIED // 4, device=device)
    target = torch.zeros_like(source)
    return _seconds(lambda: target.copy_(source), 0.1, device)


def _seconds(work: Callable[[], Any], most: float, device: str) -> float:
    """The median of some calls, after one that warms up where it is quick."""
    wait: Callable[[], Any] = torch.cuda.synchronize if device == "cuda" else lambda: None
    found: list[float] = []
    began = time.perf_counter()
    while not found or time.perf_counter() - began < most:
        start = time.perf_counter()
        work()
        wait()
        found.append(time.perf_counter() - start)
    return statistics.median(found[1:] or found)


def disk(folder: Path) -> dict[str, Any]:
    """Free bytes where ``folder`` is or would be, and bytes a second of a file that is written and synced there.

    ``reason`` says why nothing can be written. The file has no name, so that nothing can be left.
    """
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    found: dict[str, Any] = {"folder": str(folder), "free": None, "bytes_per_s": None, "reason": None}
    try:
        told = os.statvfs(place)
        found["free"] = told.f_bavail * told.f_frsize
        with tempfile.TemporaryFile(dir=place) as file:
            size = min(WRITTEN, found["free"])
            start = time.perf_counter()
            file.write(bytes(size))
            file.flush()
            os.fsync(file.fileno())
            found["bytes_per_s"] = size / (time.perf_counter() - start)
    except OSError as error:
        found["reason"] = error.strerror
    return found
