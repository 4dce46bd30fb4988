"""What is said of the machine, against what Python and PyTorch say of it."""

import os
import shutil

import pytest
import torch

from lab.training import machine
from lab.training.resolve import usable_cores


@pytest.fixture
def quick(monkeypatch):
    """Measurements of a moment."""
    monkeypatch.setattr(machine, "PRODUCTS", (16, 32))
    monkeypatch.setattr(machine, "PRODUCT_S", 0.001)
    monkeypatch.setattr(machine, "COPIED", 1 << 16)
    monkeypatch.setattr(machine, "WRITTEN", 1 << 16)


def test_facts_are_those_of_the_system():
    found = machine.machine()
    cpu, memory = found["processor"], found["memory"]
    assert cpu["usable_cores"] == usable_cores() <= cpu["logical_cores"] == os.cpu_count()
    assert cpu["capability"] == torch.backends.cpu.get_cpu_capability()
    assert ("AVX2" in cpu["instructions"]) == torch.cpu._is_avx2_supported()
    assert ("AVX-512 bf16" in cpu["instructions"]) == torch.cpu._is_avx512_bf16_supported()
    assert found["torch"]["version"] == torch.__version__
    assert found["torch"]["mkldnn"] == torch.backends.mkldnn.is_available()
    assert len(found["gpus"]) == torch.cuda.device_count()
    assert memory["total"] == pytest.approx(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), rel=0.01)
    assert 0 < memory["available"] <= memory["total"]


def group(root, version, **files):
    """A file system with control groups; names of files have ``__`` for a dot."""
    line, folder = {
        2: ("0::/a/b\n", "sys/fs/cgroup/a/b"),
        1: ("5:cpu,cpuacct:/a/b\n4:memory:/a/b\n0::/\n", "sys/fs/cgroup/{}/a/b"),
    }[version]
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(line)
    for name, text in files.items():
        place = root / folder.format("memory" if name.startswith("memory") else "cpu")
        place.mkdir(parents=True, exist_ok=True)
        (place / name.replace("__", ".")).write_text(text)
    return root


def test_limits_of_control_groups(tmp_path):
    new = group(tmp_path / "new", 2, cpu__max="150000 100000\n", memory__max="1073741824\n")
    assert (machine.cpu_quota(new), machine.memory_limit(new)) == (1.5, 2**30)
    (new / "sys/fs/cgroup/a/cpu.max").write_text("100000 100000\n")  # the group that it is in gives less
    assert machine.cpu_quota(new) == 1.0
    free = group(tmp_path / "free", 2, cpu__max="max 100000\n", memory__max="max\n")
    assert (machine.cpu_quota(free), machine.memory_limit(free)) == (None, None)
    old = group(
        tmp_path / "old",
        1,
        cpu__cfs_quota_us="50000\n",
        cpu__cfs_period_us="100000\n",
        memory__limit_in_bytes="536870912\n",
    )
    assert (machine.cpu_quota(old), machine.memory_limit(old)) == (0.5, 2**29)
    unlimited = group(
        tmp_path / "unlimited", 1, cpu__cfs_quota_us="-1\n", memory__limit_in_bytes="9223372036854771712\n"
    )
    assert (machine.cpu_quota(unlimited), machine.memory_limit(unlimited)) == (None, None)
    assert (machine.cpu_quota(tmp_path), machine.memory_limit(tmp_path)) == (None, None)


def test_speeds_are_measured_and_slow_products_are_left_out(quick, monkeypatch):
    found = machine.speed("cpu", 1)
    assert [(one["precision"], one["size"]) for one in found["products"]] == [
        *[("fp32", 16), ("fp32", 32)],
        *[("bf16", 16), ("bf16", 32)],
    ]
    assert found["products"][0]["flops_per_s"] > 0
    assert found["bytes_per_s"] > 0
    monkeypatch.setattr(machine, "_product_s", lambda size, dtype, device: 1.0 if dtype == torch.bfloat16 else 1e-4)
    assert [one["flops_per_s"] is None for one in machine.speed("cpu", 1)["products"]] == [
        False,
        False,
        False,
        True,
    ]


def test_a_disk_is_written_to_and_nothing_is_left(quick, tmp_path):
    found = machine.disk(tmp_path / "not/there")
    assert found["reason"] is None
    assert found["bytes_per_s"] > 0
    assert found["free"] == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.05)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("x")
    assert machine.disk(tmp_path / "file/below")["reason"] == "Not a directory"
