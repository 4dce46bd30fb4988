"""What is left of a run when it ends: its last words, its checkpoints, the memory it took."""

import logging
import resource
import sys
from contextlib import suppress
from typing import Any

import torch

from lab.config import After, Device
from lab.errors import one_line
from lab.runs.metrics import whole_lines
from lab.runs.store import RunFolder
from lab.track import Tracker
from lab.training.checkpoint import thin_out

log = logging.getLogger(__name__)


def write_ending(folder: RunFolder, tracker: Tracker, result: dict[str, Any]) -> None:
    """Write how a run ended that has no result; on a full disk it goes on saying ``running``, read as partial."""
    result["steps_done"] = len(whole_lines(folder.metrics))
    with suppress(OSError):
        folder.write_result(result)
    tracker.finish(result)


def reason_of(error: Exception) -> str:
    """The error in one line that names no place of this machine."""
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"  # without the path: the result names no machine
    return f"{type(error).__name__}: {one_line(error)}"


def thin_out_quietly(folder: RunFolder, after: After) -> None:
    """Remove of the checkpoints what the run is not to keep; where that fails, its result stands all the same."""
    try:
        thin_out(folder.checkpoints, after)
    except OSError as error:
        reason = error.strerror or one_line(error)
        log.warning("run %s keeps all of its checkpoints (%s): lab gc thins them out", folder.path.name, reason)


def peak_memory_mib(device: Device) -> float:
    """Largest memory so far: of the process on a CPU, of PyTorch's allocator on a GPU."""
    if device is Device.cuda:
        return torch.cuda.max_memory_allocated() / 2**20
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kib / 2**20 if sys.platform == "darwin" else kib / 2**10
