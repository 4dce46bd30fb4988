"""What ``auto`` comes to: devices, precision, threads, the path of attention."""

import os

import pytest
import torch

from lab.config import AttnPath, Device, Precision
from lab.errors import ConfigError
from lab.model.attention_path import choose
from lab.training import resolve as module
from lab.training.resolve import resolve

AUTO = ("device=auto", "precision=auto", "threads=null", "attn_path=auto")


@pytest.fixture
def machine(monkeypatch):
    """Pretend to be a machine."""

    def pretend(*, cuda=False, mps=False, bf16=False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
        monkeypatch.setattr(module, "bf16_is_faster", lambda device: bf16)

    return pretend


@pytest.mark.parametrize(
    ("parts", "device"),
    [({}, "cpu"), ({"mps": True}, "mps"), ({"cuda": True}, "cuda"), ({"cuda": True, "mps": True}, "cuda")],
)
def test_auto_takes_the_best_device(machine, config, parts, device):
    machine(**parts)
    assert resolve(config(*AUTO)).device == device


def test_a_device_that_is_not_there_is_refused(machine, config):
    machine(mps=True)
    with pytest.raises(ConfigError, match="device 'cuda' is not on this machine; it has mps, cpu"):
        resolve(config("device=cuda"))


@pytest.mark.parametrize(("bf16", "precision", "path"), [(True, "bf16", "plain"), (False, "fp32", "sdpa")])
def test_precision_and_path_follow_the_hardware(machine, config, bf16, precision, path):
    machine(bf16=bf16)
    resolved = resolve(config(*AUTO))
    assert (resolved.precision, resolved.attn_path) == (precision, path)


@pytest.mark.parametrize(
    ("name", "avx512", "amx", "faster"),
    [
        ("AMD EPYC", True, False, True),
        ("AMD EPYC", False, False, False),
        ("Intel Xeon", True, False, False),
        ("Intel Xeon", True, True, True),
    ],
)
def test_where_a_processor_is_faster_in_bf16(monkeypatch, name, avx512, amx, faster):
    monkeypatch.setattr(module, "processor", lambda: name)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    assert module.bf16_is_faster(Device.cpu) is faster
    assert module.bf16_is_faster(Device.mps) is False


def test_what_is_asked_for_stays(machine, config):
    machine(cuda=True, bf16=True)
    resolved = resolve(config("device=cpu", "precision=fp32", "threads=3", "attn_path=plain"))
    assert resolved.device is Device.cpu
    assert resolved.precision is Precision.fp32
    assert resolved.attn_path is AttnPath.plain
    assert resolved.threads == 3


def test_threads_are_the_cores_of_this_process(config):
    assert resolve(config("threads=null")).threads == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("device", "precision", "seq_len", "path"),
    [
        ("cpu", "bf16", 128, "plain"),
        ("cpu", "bf16", 512, "plain"),
        ("cpu", "bf16", 513, "sdpa"),
        ("cpu", "fp32", 128, "sdpa"),
        ("cuda", "bf16", 128, "sdpa"),
    ],
)
def test_the_path_comes_from_the_table(device, precision, seq_len, path):
    assert choose(device=device, precision=precision, seq_len=seq_len) == path
