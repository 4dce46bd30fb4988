"""The C library's allocator, told to keep what a training step frees for the next step.

By default glibc hands large blocks back to the system as soon as they are freed, and each step asks for them anew,
page by page: thousands of page faults, 5 percent of the time of a small model's step.
"""

import ctypes
import platform

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of ``mallopt``: how much may lie free at the heap's end, and from what size on a block is a map."""

KEPT = 2**30
"""Bytes; larger than any tensor of a model that is trained on a CPU should be."""


def keep_freed_memory() -> bool:
    """For the rest of this process; whether its C library takes it, which those other than glibc do not."""
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    return all(library.mallopt(parameter, KEPT) == 1 for parameter in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD))
