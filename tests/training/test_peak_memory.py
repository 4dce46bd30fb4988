"""Bytes that tensors hold, by hand and by what PyTorch's profiler sees of its allocator."""

import time
from dataclasses import replace

import pytest
import torch
from contracts.menu import SIZES, model
from torch.profiler import ProfilerActivity, profile

from lab.training.cache_cost import peak_bytes
from lab.training.generate import last_logits
from lab.training.peak_memory import LiveTensors
from lab.training.precision import compute_in

LENGTH, BATCH = 128, 2


def test_each_storage_counts_from_its_first_tensor_to_its_last():
    given = torch.zeros(100)
    with LiveTensors([given, given[:10]]) as live:
        assert live.now == 400
        a = given.view(10, 10)
        b = a + 1
        b.mul_(2)
        assert live.now == 800
        row = b[0]
        del b
        assert live.now == 800
        first, second = (row * 2).split(5)
        assert live.now == 840
        del row, first
        assert live.now == 440
        del second
        assert (live.now, live.most) == (400, 840)
    torch.zeros(10_000)
    assert live.most == 840
    del a, given
    assert live.now == 0


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "inside"), [("fp32", 2**12), ("bf16", 2**17)])
@pytest.mark.parametrize("attn", ["mha", "mqa", "mla", "dsa", "sliding_window"])
def test_the_peak_of_decoding_is_that_of_the_allocator(attn, precision, inside, monkeypatch):
    """But for what kernels take within themselves, some in bf16 and as good as nothing in fp32."""
    monkeypatch.setenv("KINETO_LOG_LEVEL", "99")
    net = model(attn=attn, dims=replace(SIZES, dim=64, max_seq_len=LENGTH)).eval()
    ids_BT = torch.randint(61, (BATCH, LENGTH))
    last_logits(net, ids_BT, net.new_caches(), 0)  # makes what is kept between calls
    with compute_in(precision, "cpu"), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        caches = net.new_caches()
        last_logits(net, ids_BT[:, :-1], caches, 0)
        start = time.time_ns()
        last_logits(net, ids_BT[:, -1:], caches, LENGTH - 1)
    held, most = sum(p.nbytes for p in (*net.parameters(), *net.buffers())), 0
    events = (e for e in profiled.profiler.kineto_results.events() if e.name() == "[memory]")
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held) if event.start_ns() > start else most
    found = peak_bytes(net, LENGTH, precision, batch=BATCH)
    assert found <= most <= found + inside
