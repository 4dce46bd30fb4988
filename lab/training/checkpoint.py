"""Checkpoints: one safetensors file each, never a pickle, never half a file, the last two kept.

When a run has ended, ``checkpoint.after`` says what stays: as a rule the weights of the newest one alone.
"""

import hashlib
import logging
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from lab.config import After
from lab.errors import one_line
from lab.files import write_atomically

KEPT = 2
"""How many checkpoints a run keeps, so that a damaged newest one has one before it."""

WEIGHTS = "model."
"""What the names of a model's tensors begin with."""

log = logging.getLogger(__name__)


def save_checkpoint(folder: Path, tensors: Mapping[str, Tensor], step: int) -> None:
    """Write ``step-NNNNNNNN.safetensors``; remove what is older than the one before, and what is ahead."""
    folder.mkdir(exist_ok=True)
    path = folder / f"step-{step:08d}.safetensors"
    _write(path, {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, {"step": str(step)})
    files = _files(folder)
    newest = files.index(path)
    for other in files[: max(0, newest + 1 - KEPT)] + files[newest + 1 :]:
        other.unlink()


def load_newest(folder: Path, *, most_steps: int, complete_below: int = 0) -> tuple[dict[str, Tensor], int] | None:
    """The newest whole checkpoint at or before ``most_steps``, as tensors and step; None where there is none.

    A damaged one is passed over with a warning, and so is one of weights alone from which training would have to go
    on: of a step below ``complete_below``.
    """
    files = _files(folder)
    for n, path in reversed(list(enumerate(files))):
        instead = "taking the one before" if n else "there is none before"
        try:
            tensors, header = _read(path)
            step = int(header["step"])
        except (OSError, ValueError, SafetensorError) as error:
            log.warning("checkpoint %s is damaged (%s); %s", path, one_line(error), instead)
            continue
        if step > most_steps:
            log.warning("checkpoint %s is ahead of the metrics; %s", path, instead)
        elif "holds" in header and step < complete_below:
            log.warning("checkpoint %s holds weights alone, from which training cannot go on; %s", path, instead)
        else:
            return tensors, step
    return None


def thin_out(folder: Path, after: After) -> None:
    """Keep what is wanted of the checkpoints of a run that has ended; after a kill in between it can be done again.

    Where no checkpoint is whole, all are left as they are.
    """
    if after is After.all:
        return
    if after is After.none:
        for path in _files(folder):
            path.unlink()
        return
    newest = load_newest(folder, most_steps=sys.maxsize)
    if newest is None:
        return
    tensors, step = newest
    kept = folder / f"step-{step:08d}.safetensors"
    for path in _files(folder):
        if path != kept:
            path.unlink()
    weights = {name: tensor for name, tensor in tensors.items() if name.startswith(WEIGHTS)}
    if len(weights) < len(tensors):
        _write(kept, weights, {"step": str(step), "holds": "weights"})


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.safetensors"))


def _write(path: Path, tensors: dict[str, Tensor], header: dict[str, str]) -> None:
    write_atomically(path, save(tensors, metadata={**header, "sha256": _digest(tensors, header)}))


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    with safe_open(path, framework="pt") as file:
        header = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    if header.pop("sha256", None) != _digest(tensors, header):
        raise ValueError("its checksum does not fit")
    return tensors, header


def _digest(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    """sha256 over step, what is held where that is not all, names, shapes and bytes."""
    digest = hashlib.sha256(" ".join(header[key] for key in ("step", "holds") if key in header).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor_bytes(tensor))
    return digest.hexdigest()


def tensor_bytes(tensor: Tensor) -> bytes:
    """The bytes of a contiguous tensor on the CPU."""
    return tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
