"""Checkpoints: one safetensors file each, never a pickle, never half a file, the last two kept."""

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from lab.files import write_atomically

KEPT = 2
"""How many checkpoints a run keeps, so that a damaged newest one has one before it."""

log = logging.getLogger(__name__)


def save_checkpoint(folder: Path, tensors: Mapping[str, Tensor], step: int) -> None:
    """Write ``step-NNNNNNNN.safetensors``; remove what is older than the one before, and what is ahead."""
    folder.mkdir(exist_ok=True)
    on_cpu = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    header = {"step": str(step), "sha256": _digest(on_cpu, str(step))}
    path = folder / f"step-{step:08d}.safetensors"
    write_atomically(path, save(on_cpu, metadata=header))
    files = _files(folder)
    newest = files.index(path)
    for other in files[: max(0, newest + 1 - KEPT)] + files[newest + 1 :]:
        other.unlink()


def load_newest(folder: Path, *, most_steps: int) -> tuple[dict[str, Tensor], int] | None:
    """The newest whole checkpoint at or before ``most_steps``, as tensors and step; None where there is none.

    A damaged one is passed over with a warning.
    """
    for path in reversed(_files(folder)):
        try:
            tensors, step = _read(path)
        except (OSError, ValueError, SafetensorError) as error:
            log.warning("checkpoint %s is damaged (%s); taking the one before", path, error)
            continue
        if step <= most_steps:
            return tensors, step
        log.warning("checkpoint %s is ahead of the metrics; taking the one before", path)
    return None


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.safetensors"))


def _read(path: Path) -> tuple[dict[str, Tensor], int]:
    with safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    step = header.get("step", "")
    if header.get("sha256") != _digest(tensors, step):
        raise ValueError("its checksum does not fit")
    return tensors, int(step)


def _digest(tensors: Mapping[str, Tensor], step: str) -> str:
    """sha256 over step, names, shapes and bytes."""
    digest = hashlib.sha256(step.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor_bytes(tensor))
    return digest.hexdigest()


def tensor_bytes(tensor: Tensor) -> bytes:
    """The bytes of a contiguous tensor on the CPU."""
    return tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
