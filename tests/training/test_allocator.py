"""Freed memory is kept, and no longer faulted in again."""

import subprocess
import sys

import pytest

from lab.training import allocator

FAULTS = """
import resource, torch
from lab.training.allocator import keep_freed_memory
torch.set_num_threads(1)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(4_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
first, taken = faults(), keep_freed_memory()
faults()
print(first, taken, faults())
"""


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(allocator.platform, "libc_ver", lambda: ("", ""))
    assert allocator.keep_freed_memory() is False


@pytest.mark.slow
@pytest.mark.skipif(allocator.platform.libc_ver()[0] != "glibc", reason="glibc alone has the setting")
def test_large_tensors_are_not_faulted_in_again():
    found = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    first, taken, then = found.stdout.split()
    assert taken == "True"
    assert int(first) > 1000
    assert int(then) < int(first) / 10
