"""Training with a compiled model: whether it pays, whether this machine can, and what it costs.

A step of the compiled model takes about 0.9 of the time on a CPU, after half a minute to a minute of compiling
(``docs/performance.md``); it pays from some number of steps on, not from some size, since larger steps save more.
Compiled code is cached by what it is made of, outside the runs' folders, and the runs of a sweep share it.
Validation is not compiled: it would need a graph of its own, and ``lab eval`` has to find the very loss that
training found.
"""

import logging
import os
import shutil
from importlib.util import find_spec

from lab.config import Device
from lab.errors import ConfigError
from lab.model.transformer import Transformer

FROM_STEPS = 5_000
"""The length of a run, in steps, from which on ``null`` compiles."""

log = logging.getLogger(__name__)


def chosen(wanted: bool | None, *, device: Device, steps: int, here: bool = True) -> bool:
    """Whether a run is compiled: as it asks for, or by its length where this machine has what that takes.

    Args:
        wanted: the run's ``compile``.
        device: where it computes, not ``auto``.
        steps: its length.
        here: whether it is to be trained on this machine; another one is taken to have a compiler.

    Raises:
        ConfigError: it asks for a compiler that this machine does not have.
    """
    lacks = missing(device) if here else None
    if wanted and lacks:
        raise ConfigError(f"compile=true needs {lacks}, which this machine lacks; compile=false trains without")
    return wanted if wanted is not None else lacks is None and steps >= FROM_STEPS


def missing(device: Device) -> str | None:
    """What this machine lacks for compiling; None where nothing does."""
    if device is Device.cuda:
        return None if find_spec("triton") else "the package triton"
    if device is Device.mps:
        return "a CPU or a CUDA device"
    compiler = os.environ.get("CXX", "g++")
    return None if shutil.which(compiler) or shutil.which("clang++") else f"a C++ compiler ({compiler})"


def compile_model(model: Transformer) -> None:
    """Have calls of the model compiled at the first one; its parameters keep their names."""
    log.info("  compiling at the first step, which takes up to a minute or two")
    model.compile()
