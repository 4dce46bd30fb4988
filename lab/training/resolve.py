"""What ``auto`` comes to on this machine. The outcome is part of a run's identity."""

import os
import platform
from dataclasses import replace

import torch

from lab.config import AttnPath, Device, Precision, RunConfig
from lab.errors import ConfigError
from lab.model.attention_path import choose
from lab.training.compiled import chosen


def resolve(config: RunConfig, *, here: bool = True) -> RunConfig:
    """The configuration with nothing left to decide.

    Where it is not to be trained ``here``, the device that is asked for need not be there; of a GPU that is not
    there ``auto`` makes bf16.

    Raises:
        ConfigError: a device or a compiler is asked for that this machine does not have.
    """
    elsewhere = not here and not is_here(config.device)
    device = config.device if elsewhere else resolve_device(config.device)
    precision = config.precision
    if precision is Precision.auto:
        bf16 = device is Device.cuda if elsewhere else bf16_is_faster(device)
        precision = Precision.bf16 if bf16 else Precision.fp32
    path = config.attn_path
    if path is AttnPath.auto:
        path = AttnPath(choose(device=device, precision=precision, seq_len=config.model.max_seq_len))
    threads = config.threads if config.threads is not None else usable_cores()
    compiles = chosen(config.compile, device=device, steps=config.train.steps, here=not elsewhere)
    return replace(config, device=device, precision=precision, attn_path=path, threads=threads, compile=compiles)


def is_here(device: Device) -> bool:
    """Whether this machine has the device; ``auto`` is everywhere."""
    return device is Device.auto or _present()[device]


def _present() -> dict[Device, bool]:
    return {
        Device.cuda: torch.cuda.is_available(),
        Device.mps: torch.backends.mps.is_available(),
        Device.cpu: True,
    }


def resolve_device(wanted: Device) -> Device:
    """The device that ``auto`` comes to.

    Raises:
        ConfigError: this machine does not have it.
    """
    present = _present()
    if wanted is Device.auto:
        return next(device for device, here in present.items() if here)
    if not present[wanted]:
        here = ", ".join(device for device, found in present.items() if found)
        raise ConfigError(f"device '{wanted}' is not on this machine; it has {here}")
    return wanted


def bf16_is_faster(device: Device) -> bool:
    """Whether the device multiplies bf16 matrices faster than fp32 ones, by its kind and never by timing.

    A CPU does with AMX, and AMD's do with AVX-512 bf16. Intel's with AVX-512 bf16 alone, as where a virtual machine
    hides AMX, multiply in bf16 at half the speed of fp32 (docs/performance.md).
    """
    if device is Device.cuda:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device is Device.cpu:
        by_avx512 = torch.cpu._is_avx512_bf16_supported() and processor().startswith("AMD")
        return by_avx512 or torch.cpu._is_amx_tile_supported()
    return False


def processor() -> str:
    """The processor's name, as far as this PyTorch tells."""
    if not hasattr(torch.cpu, "get_capabilities"):  # before 2.10
        return platform.processor()
    return str(torch.cpu.get_capabilities().get("cpu_name", platform.processor()))


def usable_cores() -> int:
    """Cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1
